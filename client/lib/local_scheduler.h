// A scheduler in this process, without a server.
#ifndef STOWAGE_CLIENT_LIB_LOCAL_SCHEDULER_H_
#define STOWAGE_CLIENT_LIB_LOCAL_SCHEDULER_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/scheduler.h"
#include "proto/service/execution_report.h"
#include "proto/service/results.h"
#include "solver/algorithms/solver.h"

namespace stowage {

struct LocalOptions {
  int64_t working_bytes = int64_t{4} << 30;  // limit of the memory that a solve allocates
  std::optional<double> timeout_seconds;     // of one call; unset: none
  std::stop_token stop = {};                 // ends a call from outside
};

// Runs `find` with that memory and all cores; returns the seconds it took. Errors: those of `find`,
// and DEADLINE_EXCEEDED "no answer within 5 s" in place of CANCELLED unless `options.stop` is set.
// Thread-safe.
absl::StatusOr<double> RunLocally(const LocalOptions& options,
                                  absl::FunctionRef<absl::Status(const SolveContext&)> find);

// Answers as the service does, with no cache and no queue: Origin::source is always kSolved and the
// fingerprint empty. Errors: those of AnswerRequest(), FindFrontier() and SimulateAndExplain().
class LocalScheduler final : public Scheduler {
 public:
  explicit LocalScheduler(const LocalOptions& options) : options_(options) {}

  // When the timeout or the request's time budget ends, or LocalOptions::stop is set, the best
  // schedule so far is the answer. Without one the timeout gives DEADLINE_EXCEEDED and `stop`
  // CANCELLED; the budget waits for the first schedule.
  absl::StatusOr<SolveResult> Solve(const SolveRequest& request, const SolveCall& call) override;
  absl::StatusOr<FrontierResult> FindFrontier(const FrontierRequest& request) override;
  absl::StatusOr<ExplainedSimulation> Simulate(const SimulateRequest& request) override;
  absl::StatusOr<std::vector<Verdict>> Admit(const AdmitRequest& request) override;
  absl::Status ReportExecution(const ExecutionReport& report) override;  // UNIMPLEMENTED

 private:
  const LocalOptions options_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_LOCAL_SCHEDULER_H_
