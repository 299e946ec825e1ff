// Enumerators of the domain and the API's, by tables. Thread-safe.
#ifndef STOWAGE_PROTO_CONVERT_ENUMERATORS_H_
#define STOWAGE_PROTO_CONVERT_ENUMERATORS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stowage {

// An enumerator of the domain and the API's for the same thing. One table serves both directions,
// so that they cannot differ.
template <typename Value, typename Message>
struct Enumerators {
  Value value;
  Message message;
};

// Requires: `value` is in the table. A table lists every enumerator of the domain.
template <typename Value, typename Message, size_t kCount>
Message ToEnumerator(const Enumerators<Value, Message> (&table)[kCount], Value value) {
  for (const auto& entry : table) {
    if (entry.value == value) return entry.message;
  }
  return Message();
}

// Sets `value`; DATA_LOSS naming `field` where the table lacks the message's enumerator, as it does
// for one of a newer server.
template <typename Value, typename Message, size_t kCount>
absl::Status FromEnumerator(const Enumerators<Value, Message> (&table)[kCount], Message message,
                            const char* field, Value* value) {
  for (const auto& entry : table) {
    if (entry.message != message) continue;
    *value = entry.value;
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(field, ": is ", static_cast<int>(message),
                                          ", which this version does not have"));
}

}  // namespace stowage

#endif  // STOWAGE_PROTO_CONVERT_ENUMERATORS_H_
