// Answers in this process, without a server.
#ifndef STOWAGE_CLIENT_LIB_LOCAL_H_
#define STOWAGE_CLIENT_LIB_LOCAL_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

struct LocalOptions {
  int64_t working_bytes = int64_t{4} << 30;  // most memory that a solve may take
  std::optional<double> timeout_seconds;     // unset: none
};

// Runs `find` with that memory and all cores; returns the seconds it took. Errors: those of `find`,
// but DEADLINE_EXCEEDED "no answer within 5 s" where it was stopped by the timeout. Thread-safe.
absl::StatusOr<double> RunLocally(const LocalOptions& options,
                                  absl::FunctionRef<absl::Status(const SolveContext&)> find);

// As the service answers. Errors: INVALID_ARGUMENT with every violated field, those of
// AnswerRequest() or FindFrontier(), and DEADLINE_EXCEEDED as above. Thread-safe.
absl::StatusOr<v1::SolveResponse> SolveLocally(const LocalOptions& options,
                                               const v1::SolveRequest& request);
absl::StatusOr<v1::FrontierResponse> FindFrontierLocally(const LocalOptions& options,
                                                         const v1::FrontierRequest& request);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_LOCAL_H_
