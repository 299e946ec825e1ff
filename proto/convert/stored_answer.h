// Answers in the format of the disk cache. Thread-safe.
#ifndef STOWAGE_PROTO_CONVERT_STORED_ANSWER_H_
#define STOWAGE_PROTO_CONVERT_STORED_ANSWER_H_

#include <optional>

#include "solver/model/answer.h"
#include "stowage/v1/store.pb.h"

namespace stowage {

// The schedule, whose it is, and what decides under which key it is stored; without the keys.
v1::StoredAnswer ToStored(const Answer& answer);

// The same. nullopt: no version of the server wrote this.
std::optional<Answer> FromStored(const v1::StoredAnswer& stored);

}  // namespace stowage

#endif  // STOWAGE_PROTO_CONVERT_STORED_ANSWER_H_
