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

// Appends a field of bytes: its tag, its length, the bytes.
void AppendField(int number, absl::string_view bytes, std::string* text) {
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
  storage->clear();
  PartialCopy text(request, storage);
  bool is_message = true;
  std::string fields;
  is_message &=
      ForEachField(request, [&](int number, absl::string_view whole, absl::string_view payload) {
        if (number != v1::SolveRequest::kChainFieldNumber) return;
        if (payload.size() == whole.size()) return;  // it is no message
        fields.clear();
        PartialCopy chain(payload, &fields);
        is_message &= ForEachField(
            payload, [&](int in_chain, absl::string_view provenance, absl::string_view) {
              if (in_chain == v1::Chain::kProvenanceFieldNumber) chain.CutOut(provenance);
            });
        if (chain.is_whole()) return;
        chain.CopyRest();
        text.CutOut(whole);
        AppendField(number, fields, storage);
      });
  if (!is_message) return "";
  if (text.is_whole()) return request;
  text.CopyRest();
  return *storage;
}

}  // namespace stowage
