#include "server/engine/export_solve.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/service/results.h"
#include "server/engine/limits/request_bytes.h"
#include "server/events/rejection.h"
#include "solver/base/out_of_memory.h"
#include "solver/base/status_macros.h"
#include "solver/base/time/clock.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

// One call of SolveAndExport(): listens to its second solve. Every path ends with one End().
class ExportSolve final : public SolveListener, public std::enable_shared_from_this<ExportSolve> {
 public:
  ExportSolve(Engine& engine, SolveRequest request, std::shared_ptr<const ExportRequest> exported,
              Caller caller, std::shared_ptr<SolveListener> listener, RequestBytes::Hold held)
      : engine_(engine),
        request_(std::move(request)),
        exported_(std::move(exported)),
        caller_(std::move(caller)),
        listener_(std::move(listener)),
        held_(std::move(held)) {}

  void Start() {
    absl::StatusOr<std::optional<SolveRequest>> solve = WithMemory<std::optional<SolveRequest>>(
        [this] { return PlanSolve(*exported_, PlanOptions()); });
    if (!solve.ok()) return End(solve.status());
    if (solve->has_value()) {
      engine_.Solve(**std::move(solve), PlanCaller(),
                    std::make_shared<PlanListener>(shared_from_this()));
      return;
    }
    const double budget = request_.options.time_budget_seconds;
    engine_.FindSetting(exported_, budget > 0 ? budget : kNoBudget, PlanCaller(),
                        [self = shared_from_this()](absl::StatusOr<TargetPlan> plan) {
                          self->PlanFound(std::move(plan));
                        });
  }

  void Queued(size_t before) override { listener_->Queued(before); }
  void Running(double fraction) override { listener_->Running(fraction); }
  void Improved(const std::shared_ptr<const Answer>& best) override { listener_->Improved(best); }
  void Done(absl::StatusOr<SolveResult> result) override {
    if (!result.ok()) return End(std::move(result));
    absl::StatusOr<std::shared_ptr<const Export>> exported =
        WithMemory<std::shared_ptr<const Export>>(
            [&]() -> absl::StatusOr<std::shared_ptr<const Export>> {
              ASSIGN_OR_RETURN(Export made, ExportOf(*exported_, plan_, *result->answer));
              return std::make_shared<const Export>(std::move(made));
            });
    if (!exported.ok()) return End(exported.status());
    result->exported = *std::move(exported);
    End(std::move(result));
  }

 private:
  // Listens to the first solve, whose schedules are not those that the caller asked for.
  class PlanListener final : public SolveListener {
   public:
    explicit PlanListener(std::shared_ptr<ExportSolve> owner) : owner_(std::move(owner)) {}
    void Queued(size_t before) override { owner_->Queued(before); }
    void Done(absl::StatusOr<SolveResult> result) override {
      if (!result.ok()) return owner_->PlanFound(result.status());
      owner_->PlanFound(
          WithMemory<TargetPlan>([&] { return PlanFrom(*owner_->exported_, *result->answer); }));
    }

   private:
    const std::shared_ptr<ExportSolve> owner_;
  };

  template <typename Result, typename Make>
  static absl::StatusOr<Result> WithMemory(Make make) {
    return UnlessOutOfMemory([&]() -> absl::StatusOr<Result> { return make(); },
                             TooLittleFreeMemory);
  }

  // What a finer grid would gain is asked of the answer alone.
  SolveOptions PlanOptions() const {
    SolveOptions options = request_.options;
    options.report_rounding_loss = false;
    return options;
  }

  void End(absl::StatusOr<SolveResult> result) {
    listener_->Done(std::move(result));
    engine_.EndParts();
  }

  void PlanFound(absl::StatusOr<TargetPlan> plan) {
    if (!plan.ok()) return End(plan.status());
    plan_ = *std::move(plan);
    engine_.Solve(std::move(request_), caller_, shared_from_this());
  }

  // The plan gets half of the time that the caller waits: the answer is as good as without it.
  Caller PlanCaller() const {
    Caller caller = caller_;
    if (caller.deadline == Clock::time_point::max()) return caller;
    const Clock::time_point now = Clock::now();
    caller.deadline = now + std::max(caller.deadline - now, Clock::duration::zero()) / 2;
    return caller;
  }

  static constexpr double kNoBudget = std::numeric_limits<double>::infinity();

  Engine& engine_;
  SolveRequest request_;  // until the second solve begins
  const std::shared_ptr<const ExportRequest> exported_;
  const Caller caller_;
  const std::shared_ptr<SolveListener> listener_;
  const RequestBytes::Hold held_;
  TargetPlan plan_;  // once it is found
};

}  // namespace

void SolveAndExport(Engine& engine, SolveRequest request,
                    std::shared_ptr<const ExportRequest> exported, Caller caller,
                    std::shared_ptr<SolveListener> listener) {
  if (const absl::Status begun = engine.BeginParts(); !begun.ok()) return listener->Done(begun);
  caller.is_part = true;
  // The request's own chain, in whose place come the layers once its solve has it.
  const int64_t bytes = BytesOf(request.chain) + BytesOf(exported->chain);
  absl::StatusOr<RequestBytes::Hold> held = engine.request_bytes().Take(bytes, caller.client);
  if (!held.ok()) {
    listener->Done(held.status());
    return engine.EndParts();
  }
  std::make_shared<ExportSolve>(engine, std::move(request), std::move(exported), std::move(caller),
                                std::move(listener), *std::move(held))
      ->Start();
}

}  // namespace stowage
