#include "server/rpc/request_text.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {
namespace {

namespace pb = google::protobuf;

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

// Appends the fields of `chain` but for its provenance, and sets `is_less` where it has any. False:
// the bytes are not a message.
bool AppendWithoutProvenance(absl::string_view chain, std::string* fields, bool* is_less) {
  return ForEachField(chain, [&](int number, absl::string_view whole, absl::string_view) {
    if (number == v1::Chain::kProvenanceFieldNumber) {
      *is_less = true;
    } else {
      fields->append(whole.data(), whole.size());
    }
  });
}

// Appends a field of bytes: its tag, its length, the bytes.
void AppendField(int number, absl::string_view bytes, std::string* text) {
  using Format = pb::internal::WireFormatLite;
  using Output = pb::io::CodedOutputStream;
  constexpr size_t kMaxVarintBytes = 5;
  std::array<uint8_t, 2 * kMaxVarintBytes> head;
  uint8_t* end = Output::WriteTagToArray(Format::MakeTag(number, Format::WIRETYPE_LENGTH_DELIMITED),
                                         head.data());
  end = Output::WriteVarint32ToArray(static_cast<uint32_t>(bytes.size()), end);
  text->append(reinterpret_cast<const char*>(head.data()), static_cast<size_t>(end - head.data()));
  text->append(bytes.data(), bytes.size());
}

}  // namespace

// A field says where it ends, so that different fields never read as equal text; what is left of a
// chain is a field again. Order is kept: a message with reordered fields is a miss, no error.
absl::string_view RequestText(absl::string_view request, std::string* storage) {
  bool is_message = true;
  bool is_less = false;
  std::string fields;
  storage->clear();
  storage->reserve(request.size());
  is_message &=
      ForEachField(request, [&](int number, absl::string_view whole, absl::string_view payload) {
        const bool is_chain =
            number == v1::SolveRequest::kChainFieldNumber && payload.size() < whole.size();
        if (!is_chain) {
          storage->append(whole.data(), whole.size());
          return;
        }
        fields.clear();
        fields.reserve(payload.size());
        is_message &= AppendWithoutProvenance(payload, &fields, &is_less);
        AppendField(number, fields, storage);
      });
  if (!is_message) return "";
  return is_less ? absl::string_view(*storage) : request;
}

}  // namespace stowage
