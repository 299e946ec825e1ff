#include "server/engine/admit_job.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "proto/service/results.h"
#include "server/engine/limits/request_bytes.h"
#include "server/events/rejection.h"
#include "solver/base/out_of_memory.h"
#include "solver/base/time/clock.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

// One call of AdmitJob(): listens to its solves. Every path ends with one End().
class JobAdmission final : public SolveListener, public std::enable_shared_from_this<JobAdmission> {
 public:
  JobAdmission(Engine& engine, AdmitRequest request, Caller caller, AdmitDone done,
               RequestBytes::Hold held)
      : engine_(engine),
        request_(std::move(request)),
        caller_(std::move(caller)),
        done_(std::move(done)),
        held_(std::move(held)) {}

  // Judges devices until one takes a solve. At most kMaxDevices deep, where all are cached.
  void GoOn() {
    std::optional<SolveRequest> solve;
    const absl::Status judged = WithMemory([&] {
      while (verdicts_.size() < request_.devices.size() && !solve.has_value()) {
        const size_t device = verdicts_.size();
        if (std::optional<Verdict> verdict = VerdictWithoutPlan(request_, device)) {
          verdicts_.push_back(*std::move(verdict));
        } else {
          solve = PlanRequest(request_, device);
        }
      }
      return absl::OkStatus();
    });
    if (!judged.ok()) return End(judged);
    if (!solve.has_value()) return End(Ranked(request_, std::move(verdicts_)));
    engine_.Solve(*std::move(solve), CallerOfNext(), shared_from_this());
  }

  void Done(absl::StatusOr<SolveResult> result) override {
    if (!result.ok()) return End(result.status());
    const absl::Status judged = WithMemory([&] {
      verdicts_.push_back(VerdictWithPlan(request_, verdicts_.size(), std::move(result->answer)));
      return absl::OkStatus();
    });
    judged.ok() ? GoOn() : End(judged);
  }

 private:
  template <typename Judge>
  static absl::Status WithMemory(Judge judge) {
    return UnlessOutOfMemory(judge, TooLittleFreeMemory);
  }

  // The devices that are left share the time until the deadline.
  Caller CallerOfNext() const {
    Caller caller = caller_;
    if (caller.deadline == Clock::time_point::max()) return caller;
    const Clock::time_point now = Clock::now();
    const auto left = static_cast<int64_t>(request_.devices.size() - verdicts_.size());
    caller.deadline = now + std::max(caller.deadline - now, Clock::duration::zero()) / left;
    return caller;
  }

  void End(absl::StatusOr<std::vector<Verdict>> verdicts) {
    done_(std::move(verdicts));
    engine_.EndParts();
  }

  Engine& engine_;
  const AdmitRequest request_;
  const Caller caller_;
  AdmitDone done_;
  const RequestBytes::Hold held_;
  std::vector<Verdict> verdicts_;  // of the first devices
};

}  // namespace

void AdmitJob(Engine& engine, AdmitRequest request, Caller caller, AdmitDone done) {
  if (const absl::Status begun = engine.BeginParts(); !begun.ok()) return done(begun);
  caller.is_part = true;
  absl::StatusOr<RequestBytes::Hold> held =
      engine.request_bytes().Take(BytesOf(request), caller.client);
  if (!held.ok()) {
    done(held.status());
    return engine.EndParts();
  }
  std::make_shared<JobAdmission>(engine, std::move(request), std::move(caller), std::move(done),
                                 *std::move(held))
      ->GoOn();
}

}  // namespace stowage
