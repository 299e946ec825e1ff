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

// What a frame adds to a field: its number and its length.
constexpr size_t kFrameBytes = 16;

// Calls `handle(number, whole, payload)` for each field of `message`; `payload` is the content of a
// message or string, and the whole field where it is neither. False: the bytes are not a message.
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
    int payload = begin;
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
  static_assert(sizeof(frame) == kFrameBytes);
  text->append(reinterpret_cast<const char*>(frame), sizeof(frame));
  text->append(bytes.data(), bytes.size());
}

}  // namespace

// The fields of the request in their order, each with number and length; the chain's fields in its
// place, without the provenance. No text is longer than kMaxTimes its request and a little: stages
// are longer than their frames, and a message of millions of tiny fields is not worth its memory.
// Order is kept: a message with reordered fields is a miss, no error.
std::string RequestText(absl::string_view request) {
  constexpr size_t kMaxTimes = 2;
  constexpr size_t kAlwaysAllowed = 1024;
  const size_t max_bytes = kMaxTimes * request.size() + kAlwaysAllowed;
  std::string text;
  text.reserve(max_bytes);
  bool is_message = true;
  bool is_too_long = false;
  const auto add = [&](int number, absl::string_view bytes) {
    is_too_long |= text.size() + kFrameBytes + bytes.size() > max_bytes;
    if (!is_too_long) AppendFrame(number, bytes, &text);
  };
  const auto add_chain = [&](absl::string_view chain) {
    add(v1::SolveRequest::kChainFieldNumber, "");
    is_message &= ForEachField(chain, [&](int number, absl::string_view whole, absl::string_view) {
      if (number != v1::Chain::kProvenanceFieldNumber) add(kOfChain + number, whole);
    });
  };
  is_message &=
      ForEachField(request, [&](int number, absl::string_view whole, absl::string_view payload) {
        const bool is_chain =
            number == v1::SolveRequest::kChainFieldNumber && payload.size() < whole.size();
        is_chain ? add_chain(payload) : add(number, whole);
      });
  return is_message && !is_too_long ? text : "";
}

}  // namespace stowage
