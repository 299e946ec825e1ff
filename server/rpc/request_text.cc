#include "server/rpc/request_text.h"

#include <cstddef>
#include <cstdint>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {
namespace {

namespace pb = google::protobuf;

// Added to the numbers of the chain's fields, which are thus above those of all fields of a
// request.
constexpr int kOfChain = 1 << 29;

// Calls `handle(number, whole, payload)` for each field of `message`; `payload` is the content of a
// message or string. False: the bytes are not a message.
template <typename Handle>
bool ForEachField(absl::string_view message, Handle handle) {
  using Format = pb::internal::WireFormatLite;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(message.data());
  const auto size = static_cast<int>(message.size());
  pb::io::CodedInputStream input(bytes, size);
  const auto between = [&message](int begin, int end) {
    return message.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  };
  for (int begin = 0; begin < size; begin = input.CurrentPosition()) {
    const uint32_t tag = input.ReadTag();
    int payload = input.CurrentPosition();
    if (Format::GetTagWireType(tag) == Format::WIRETYPE_LENGTH_DELIMITED) {
      uint32_t length = 0;
      if (!input.ReadVarint32(&length)) return false;
      payload = input.CurrentPosition();
      if (length > message.size() || !input.Skip(static_cast<int>(length))) return false;
    } else if (tag == 0 || !Format::SkipField(&input, tag)) {
      return false;
    }
    handle(Format::GetTagFieldNumber(tag), between(begin, input.CurrentPosition()),
           between(payload, input.CurrentPosition()));
  }
  return true;
}

// Appends a field with its number and length, so that different fields never read as equal text.
void AppendFrame(int number, absl::string_view bytes, std::string* text) {
  const uint64_t frame[] = {static_cast<uint64_t>(number), bytes.size()};
  text->append(reinterpret_cast<const char*>(frame), sizeof(frame));
  text->append(bytes.data(), bytes.size());
}

}  // namespace

// The fields of the request in their order, each with number and length; the chain's fields in its
// place, without the provenance. Order is kept: a message with reordered fields is a miss, no
// error.
std::string RequestText(absl::string_view request) {
  std::string text;
  text.reserve(2 * request.size());
  bool is_message = true;
  const auto add_chain = [&](absl::string_view chain) {
    AppendFrame(v1::SolveRequest::kChainFieldNumber, "", &text);
    is_message &= ForEachField(chain, [&](int number, absl::string_view whole, absl::string_view) {
      if (number == v1::Chain::kProvenanceFieldNumber) return;
      AppendFrame(kOfChain + number, whole, &text);
    });
  };
  is_message &=
      ForEachField(request, [&](int number, absl::string_view whole, absl::string_view payload) {
        const bool is_chain =
            number == v1::SolveRequest::kChainFieldNumber && payload.size() < whole.size();
        is_chain ? add_chain(payload) : AppendFrame(number, whole, &text);
      });
  return is_message ? text : "";
}

}  // namespace stowage
