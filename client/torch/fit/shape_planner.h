// Finds how the inputs of one shape are trained within the budget. Profiles, measures plain
// training where it may fit, else finds a schedule. That is measured, too, before a step runs under
// it: one that takes more than the budget is solved for again, with less. Schedules of other shapes
// that fit serve meanwhile; all that another thread does is to find one, since measuring needs the
// network.
// Invariant: what a step takes, the input included, was measured to be within the budget.
#ifndef STOWAGE_CLIENT_TORCH_FIT_SHAPE_PLANNER_H_
#define STOWAGE_CLIENT_TORCH_FIT_SHAPE_PLANNER_H_

#include <cstdint>
#include <list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/planner.h"
#include "client/torch/fit/fit_network.h"
#include "client/torch/fit/shape_plan.h"
#include "client/torch/stages/torch_stages.h"
#include "solver/model/answer.h"
#include "solver/model/platform.h"
#include "solver/model/request.h"

namespace stowage {

// Not thread-safe.
class ShapePlanner {
 public:
  // Borrows the network.
  explicit ShapePlanner(FitNetwork* network) : network_(*network) {}

  // Of a shape in the network's present state. `others` may lend it a schedule. The first call sets
  // the network's budget. Errors: those of the network's stages, and RESOURCE_EXHAUSTED where no
  // schedule fits, with the least budget that does, or where none could be measured.
  absl::StatusOr<ShapePlan> MakePlan(const std::string& shape, const TorchInput& input,
                                     const TorchLoss& loss, const std::list<ShapePlan>& others);

  // Waits for the shape's pending schedule and measures it. Where it takes too much, starts again:
  // for a shape that has another one meanwhile without waiting. Errors: as MakePlan().
  absl::Status FinishSolve(ShapePlan* plan, const TorchInput& input, const TorchLoss& loss);

 private:
  // Of a schedule.
  struct Trial {
    int64_t over_bytes = 0;  // beyond the budget
    // Of a step that found the device full, so that its peak is not known.
    absl::Status ran_out = absl::OkStatus();

    bool fits() const { return ran_out.ok() && over_bytes == 0; }
  };

  int64_t budget_bytes() const { return network_.budget_bytes(); }

  absl::Status AddSaveOptions(TorchStages* stages, ShapePlan* plan);
  SolveRequest RequestFor(const Chain& chain, const Platform& platform) const;
  absl::Status StartSolve(ShapePlan* plan, int64_t bytes);
  absl::Status BorrowSchedule(const std::list<ShapePlan>& others, ShapePlan* plan,
                              const TorchInput& input, const TorchLoss& loss);
  absl::Status Adopt(PlannedAnswer planned, ShapePlan* plan, const TorchInput& input,
                     const TorchLoss& loss);
  absl::Status StartLeast(const Answer& answer, ShapePlan* plan);
  absl::StatusOr<Trial> RunUnder(PlannedAnswer planned, const Platform& platform, ShapePlan* plan,
                                 const TorchInput& input, const TorchLoss& loss);

  int64_t LessDeviation(int64_t bytes) const;
  int64_t WithDeviation(int64_t bytes) const;
  void RaiseDeviation(int64_t over_bytes, int64_t predicted_bytes);

  absl::Status LeastDoesNotFit(const ShapePlan& plan, const Trial& trial) const;
  absl::Status NotMeasured(const Trial& last) const;
  absl::Status NothingFits(int64_t least_bytes) const;

  FitNetwork& network_;
  // The most by which a schedule was measured to take more than the budget, relatively.
  double deviation_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_FIT_SHAPE_PLANNER_H_
