// Explanations between messages and domain types. Thread-safe.
#ifndef STOWAGE_PROTO_CONVERT_EXPLANATION_MESSAGE_H_
#define STOWAGE_PROTO_CONVERT_EXPLANATION_MESSAGE_H_

#include "absl/status/statusor.h"
#include "solver/model/explanation.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// Fills an empty message, since it appends to repeated fields.
void Fill(const Explanation& explanation, v1::Explanation* message);

// Errors: DATA_LOSS naming the field for a value that no answer of this version has.
absl::StatusOr<Explanation> FromMessage(const v1::Explanation& message);

}  // namespace stowage

#endif  // STOWAGE_PROTO_CONVERT_EXPLANATION_MESSAGE_H_
