#include <algorithm>
#include <thread>

#include "client/train/ask.h"
#include "solver/base/status_macros.h"
#include "solver/base/thread_pool.h"
#include "solver/model/validate.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

absl::Status NeedsGrpc() { return absl::UnimplementedError("this program was built without gRPC"); }

}  // namespace

absl::StatusOr<Found> FindSchedule(const AskOptions& /*options*/, const Chain& chain,
                                   const Platform& platform, const std::string& solver) {
  const SolveRequest request{chain, platform, solver, {}};
  RETURN_IF_ERROR(ViolationsStatus(RequestViolations(request)));
  ThreadPool executor(static_cast<int>(std::thread::hardware_concurrency()));
  SolveContext context;
  context.threads = &executor;
  ASSIGN_OR_RETURN(Answer answer, AnswerRequest(request, context));
  Found found;
  found.solver = answer.solver;
  found.source = "here";
  found.least_bytes = answer.minimum_memory_bytes;
  if (answer.outcome != Outcome::kInfeasible) found.schedule = std::move(answer.schedule);
  return found;
}

absl::Status Report(const AskOptions& /*options*/, const std::string& /*job*/,
                    const MeasuredRun& /*run*/) {
  return NeedsGrpc();
}

absl::Status WriteChain(const std::string& /*path*/, const Chain& /*chain*/) { return NeedsGrpc(); }

absl::Status WritePlatform(const std::string& /*path*/, const Platform& /*platform*/) {
  return NeedsGrpc();
}

}  // namespace stowage
