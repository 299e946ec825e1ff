#include "server/rpc/messages/request_text.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {
namespace {

namespace pb = google::protobuf;

using Format = pb::internal::WireFormatLite;

// Reads the varint at `at`, and returns where it ends. Null: there is none before `end`. Most have
// one byte.
inline const char* ReadVarint(const char* at, const char* end, uint64_t* value) {
  if (at != end && static_cast<uint8_t>(*at) < 0x80) {
    *value = static_cast<uint8_t>(*at);
    return at + 1;
  }
  *value = 0;
  for (int shift = 0; shift < 64 && at != end; shift += 7) {
    const auto byte = static_cast<uint8_t>(*at++);
    *value |= uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return at;
  }
  return nullptr;
}

// Returns where the number at `at` ends. Null: there is none before `end`.
const char* SkipNumber(Format::WireType type, const char* at, const char* end) {
  uint64_t value = 0;
  if (type == Format::WIRETYPE_VARINT) return ReadVarint(at, end, &value);
  const int bytes = type == Format::WIRETYPE_FIXED64 ? 8 : type == Format::WIRETYPE_FIXED32 ? 4 : 0;
  return bytes > 0 && end - at >= bytes ? at + bytes : nullptr;
}

// Returns where the field at `at` ends if it is a message or a string, and its tag and its length
// have one byte each, as those of most stages have. Null: it is another, or ends behind `end`.
inline const char* SkipShortMessage(const char* at, const char* end) {
  constexpr uint8_t kTypeBits = 7;
  constexpr uint8_t kMoreBytes = 0x80;
  if (end - at < 2) return nullptr;
  const auto tag = static_cast<uint8_t>(at[0]);
  const auto length = static_cast<uint8_t>(at[1]);
  if (((tag | length) & kMoreBytes) != 0 || tag <= kTypeBits) return nullptr;
  if ((tag & kTypeBits) != Format::WIRETYPE_LENGTH_DELIMITED) return nullptr;
  const ptrdiff_t bytes = ptrdiff_t{2} + length;
  return bytes <= end - at ? at + bytes : nullptr;
}

// Calls `handle(number, whole, payload)` for each field of `message`; `payload` is the content of a
// message or string, and the whole field where it is neither. False: the bytes are not a message,
// or have groups, which none of ours has. Every cache hit reads all fields of its chain: Protobuf's
// own reader takes twice as long.
template <typename Handle>
bool ForEachField(absl::string_view message, Handle handle) {
  const char* const end = message.data() + message.size();
  const auto between = [](const char* begin, const char* behind) {
    return absl::string_view(begin, static_cast<size_t>(behind - begin));
  };
  for (const char* at = message.data(); at != end;) {
    const char* const begin = at;
    if (const char* const next = SkipShortMessage(at, end); next != nullptr) {
      at = next;
      handle(static_cast<uint8_t>(*begin) >> 3, between(begin, at), between(begin + 2, at));
      continue;
    }
    const char* payload = at;
    uint64_t tag = 0;
    at = ReadVarint(at, end, &tag);
    if (at == nullptr || tag > UINT32_MAX) return false;
    const int number = Format::GetTagFieldNumber(static_cast<uint32_t>(tag));
    if (number == 0) return false;
    const Format::WireType type = Format::GetTagWireType(static_cast<uint32_t>(tag));
    if (type == Format::WIRETYPE_LENGTH_DELIMITED) {
      uint64_t length = 0;
      payload = ReadVarint(at, end, &length);
      if (payload == nullptr || length > static_cast<uint64_t>(end - payload)) return false;
      at = payload + length;
    } else {
      at = SkipNumber(type, at, end);
      if (at == nullptr) return false;
    }
    handle(number, between(begin, at), between(payload, at));
  }
  return true;
}

// Copies bytes but for parts of them, which are cut out in their order. Bytes without such parts
// are not copied.
class PartialCopy {
 public:
  PartialCopy(absl::string_view bytes, std::string* copy) : bytes_(bytes), copy_(*copy) {}

  // Copies what lies before `part`, and not `part`. Requires: it lies in the bytes, and is not
  // empty.
  void CutOut(absl::string_view part) {
    if (is_whole()) copy_.reserve(bytes_.size());
    const auto begin = static_cast<size_t>(part.data() - bytes_.data());
    copy_.append(bytes_.data() + done_, begin - done_);
    done_ = begin + part.size();
  }
  void CopyRest() { copy_.append(bytes_.data() + done_, bytes_.size() - done_); }

  // Nothing has been cut out.
  bool is_whole() const { return done_ == 0; }

 private:
  const absl::string_view bytes_;
  std::string& copy_;
  size_t done_ = 0;  // bytes that have been copied or cut out
};

// The tag and the length of a field of so many bytes.
std::string HeadOf(int number, size_t bytes) {
  using Output = pb::io::CodedOutputStream;
  constexpr size_t kMaxVarintBytes = 5;
  std::array<uint8_t, 2 * kMaxVarintBytes> head;
  uint8_t* end = Output::WriteTagToArray(Format::MakeTag(number, Format::WIRETYPE_LENGTH_DELIMITED),
                                         head.data());
  end = Output::WriteVarint32ToArray(static_cast<uint32_t>(bytes), end);
  return {reinterpret_cast<const char*>(head.data()), static_cast<size_t>(end - head.data())};
}

}  // namespace

// A field says where it ends, so that different fields never read as equal text; what is left of a
// chain is a field again. Order is kept: a message with reordered fields is a miss, no error.
absl::string_view RequestText(absl::string_view request, std::string* storage) {
  storage->clear();
  PartialCopy text(request, storage);
  bool is_message = true;
  is_message &=
      ForEachField(request, [&](int number, absl::string_view whole, absl::string_view payload) {
        if (number != v1::SolveRequest::kChainFieldNumber) return;
        const size_t head_bytes = whole.size() - payload.size();
        if (head_bytes == 0) return;  // it is no message
        PartialCopy chain(payload, storage);
        size_t begin = 0;  // of the chain's fields in the text
        is_message &= ForEachField(
            payload, [&](int in_chain, absl::string_view provenance, absl::string_view) {
              if (in_chain != v1::Chain::kProvenanceFieldNumber) return;
              if (chain.is_whole()) {
                text.CutOut(payload);  // what lies before it is copied, its head included
                begin = storage->size();
              }
              chain.CutOut(provenance);
            });
        if (chain.is_whole()) return;
        chain.CopyRest();
        storage->replace(begin - head_bytes, head_bytes, HeadOf(number, storage->size() - begin));
      });
  if (!is_message) return "";
  if (text.is_whole()) return request;
  text.CopyRest();
  return *storage;
}

}  // namespace stowage
