// Verdicts on a job between messages and domain types. Thread-safe.
#ifndef STOWAGE_PROTO_CONVERT_VERDICT_MESSAGE_H_
#define STOWAGE_PROTO_CONVERT_VERDICT_MESSAGE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "solver/model/verdict.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

v1::Verdict ToMessage(const Verdict& verdict);
v1::AdmitResponse ToMessage(const std::vector<Verdict>& verdicts);
// Errors: DATA_LOSS naming the field for a value that no verdict of this version has.
absl::StatusOr<std::vector<Verdict>> FromMessage(const v1::AdmitResponse& message);

}  // namespace stowage

#endif  // STOWAGE_PROTO_CONVERT_VERDICT_MESSAGE_H_
