#include "server/rpc/messages/message_limits.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"
#include "stowage/v1/model.pb.h"

namespace stowage {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr size_t kShortBytes = 64 << 10;
// Three an operation, ten a stage, and some.
constexpr int kMaxFields = 3 * kMaxOperations + 10 * kMaxStages + 100'000;

// Counts the fields of a message, those of its submessages included, in one pass over the bytes and
// without storing any. Recursion is bounded by CodedInputStream's limit on nesting.
class Counter {
 public:
  explicit Counter(CodedInputStream& in) : in_(in) {}

  // False where the bytes are not a message; the parser reports that. What was counted so far still
  // counts.
  bool Walk(const Descriptor& type) {
    while (const uint32_t tag = in_.ReadTag()) {
      ++fields_;
      if (!Pass(type, tag)) return false;
    }
    return in_.ConsumedEntireMessage();
  }

  int messages() const { return messages_; }

  std::vector<FieldViolation> TooMuch() const {
    std::vector<FieldViolation> violations;
    if (stages_ > kMaxStages) violations.push_back(TooManyStages(stages_));
    if (operations_ > kMaxOperations) violations.push_back(TooManyOperations(operations_));
    if (violations.empty() && fields_ > kMaxFields) {
      violations.push_back({"request", absl::StrCat("has ", fields_, " fields; at most ",
                                                    kMaxFields, " are allowed")});
    }
    return violations;
  }

 private:
  // Skips one field, or descends into it where it is a message.
  bool Pass(const Descriptor& type, uint32_t tag) {
    const FieldDescriptor* const field =
        type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_START_GROUP:
      case WireFormatLite::WIRETYPE_END_GROUP:
        return true;  // the API has no groups; the fields inside are counted like others
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
        uint32_t bytes = 0;
        if (!in_.ReadVarint32(&bytes) || bytes > INT32_MAX) return false;
        if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
          return in_.Skip(static_cast<int>(bytes));
        }
        return Enter(*field, static_cast<int>(bytes));
      }
      default:
        return WireFormatLite::SkipField(&in_, tag);
    }
  }

  bool Enter(const FieldDescriptor& field, int bytes) {
    const Descriptor& type = *field.message_type();
    if (&type != v1::Operation::descriptor()) ++messages_;
    if (field.is_repeated()) {  // Chain.loss is a Stage, too, but not one of the stages
      if (&type == v1::Stage::descriptor()) ++stages_;
      if (&type == v1::Operation::descriptor()) ++operations_;
    }
    const auto [limit, depth_left] = in_.IncrementRecursionDepthAndPushLimit(bytes);
    return depth_left >= 0 && Walk(type) && in_.DecrementRecursionDepthAndPopLimit(limit);
  }

  CodedInputStream& in_;
  int fields_ = 0;
  int messages_ = 0;
  int stages_ = 0;
  int operations_ = 0;
};

}  // namespace

std::vector<FieldViolation> CountFields(absl::string_view bytes, const Descriptor& type) {
  if (bytes.size() <= kShortBytes) return {};
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  Counter counter(in);
  counter.Walk(type);
  return counter.TooMuch();
}

int CountMessages(absl::string_view bytes, const Descriptor& type) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  Counter counter(in);
  counter.Walk(type);
  return counter.messages();
}

}  // namespace stowage
