#include "client/lib/local.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/request_message.h"
#include "solver/base/status_macros.h"
#include "solver/base/thread_pool.h"
#include "solver/model/validate.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/find_frontier.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

// Sets `stop` after the timeout, unless it is destroyed before.
class Timer {
 public:
  Timer(std::optional<double> timeout_seconds, const std::stop_source& stop) {
    if (!timeout_seconds.has_value()) return;
    thread_ = std::jthread([timeout_seconds, stop](const std::stop_token& destroyed) {
      std::mutex mutex;
      std::condition_variable_any never;
      std::unique_lock<std::mutex> lock(mutex);
      never.wait_for(lock, destroyed, std::chrono::duration<double>(*timeout_seconds),
                     [] { return false; });
      if (!destroyed.stop_requested()) stop.request_stop();
    });
  }

 private:
  std::jthread thread_;
};

}  // namespace

absl::StatusOr<double> RunLocally(const LocalOptions& options,
                                  absl::FunctionRef<absl::Status(const SolveContext&)> find) {
  std::stop_source stop;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  ThreadPool helpers(cores - 1);
  SolveContext context;
  context.stop = stop.get_token();
  context.working_bytes = options.working_bytes;
  context.threads = &helpers;
  const Timer timer(options.timeout_seconds, stop);
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status found = find(context);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (absl::IsCancelled(found)) {
    return absl::DeadlineExceededError(
        absl::StrCat("no answer within ", options.timeout_seconds.value_or(0), " s"));
  }
  RETURN_IF_ERROR(found);
  return elapsed.count();
}

absl::StatusOr<v1::SolveResponse> SolveLocally(const LocalOptions& options,
                                               const v1::SolveRequest& message) {
  std::vector<FieldViolation> violations;
  const SolveRequest request = FromMessage(message, &violations);
  for (FieldViolation& violation : RequestViolations(request)) {
    violations.push_back(std::move(violation));
  }
  RETURN_IF_ERROR(ViolationsStatus(violations));
  LocalOptions limits = options;
  if (const double budget = request.options.time_budget_seconds; budget > 0) {
    limits.timeout_seconds = std::min(budget, options.timeout_seconds.value_or(budget));
  }
  std::optional<Answer> answer;  // the best so far
  ASSIGN_OR_RETURN(
      const double seconds, RunLocally(limits, [&](const SolveContext& context) -> absl::Status {
        absl::StatusOr<Answer> last =
            AnswerRequest(request, context, [&answer](const Answer& better) { answer = better; });
        // Time is up, and something was found.
        if (absl::IsCancelled(last.status()) && answer.has_value()) return absl::OkStatus();
        RETURN_IF_ERROR(last.status());
        answer = *std::move(last);
        return absl::OkStatus();
      }));
  return ToMessage(*answer, {.queue_seconds = 0, .solve_seconds = seconds});
}

absl::StatusOr<v1::FrontierResponse> FindFrontierLocally(const LocalOptions& options,
                                                         const v1::FrontierRequest& message) {
  const FrontierRequest request = FromMessage(message);
  RETURN_IF_ERROR(ViolationsStatus(RequestViolations(request)));
  Frontier frontier;
  ASSIGN_OR_RETURN(const double seconds,
                   RunLocally(options, [&](const SolveContext& context) -> absl::Status {
                     ASSIGN_OR_RETURN(frontier, FindFrontier(request, context));
                     return absl::OkStatus();
                   }));
  return ToMessage(frontier, {.queue_seconds = 0, .solve_seconds = seconds});
}

}  // namespace stowage
