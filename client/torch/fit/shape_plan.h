// How the inputs of one shape are trained, and what Fit tells of that.
#ifndef STOWAGE_CLIENT_TORCH_FIT_SHAPE_PLAN_H_
#define STOWAGE_CLIENT_TORCH_FIT_SHAPE_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/pending_plan.h"
#include "client/torch/fit/fit_plan.h"
#include "client/torch/fit/scheduled_steps.h"

namespace stowage {

// What steps took. Of times the last thousand are kept.
class StepSamples {
 public:
  // `gradient_bytes`: of the peak, gradients of weights that did not exist before the step.
  void Add(double seconds, int64_t peak_bytes, int64_t gradient_bytes);
  // "12 steps, median 1.2 ms (10 % to 90 %: 1.1 ms to 1.5 ms), peak 3.4 MiB".
  std::string Text() const;

 private:
  std::string GradientsText() const;

  int64_t count_ = 0;
  std::vector<double> seconds_;
  int64_t peak_bytes_ = 0;
  int64_t gradient_bytes_ = 0;
};

struct ShapePlan : FitPlan {
  std::string shape = {};
  std::vector<std::vector<KeptOperators>> save_options = {};  // by stage; empty: none has any
  std::vector<bool> state = {};             // of the network: training modes, what is trained
  std::optional<int64_t> plain_bytes = {};  // measured; unset: does not fit
  StepSamples steps = {};
  std::unique_ptr<ScheduledSteps> scheduled = nullptr;  // null: plain training
  std::string borrowed_from = {};  // the shape whose schedule it is; empty: its own
  // While its own is being found, within so much memory.
  std::unique_ptr<PendingPlan> pending = nullptr;
  int64_t pending_bytes = 0;
  int solves = 0;
  int64_t least_bytes = 0;   // of any schedule, once the one that takes least is being found
  int64_t excess_bytes = 0;  // the most that a schedule took beyond what was predicted

  int64_t host_bytes() const { return commands == nullptr ? 0 : commands->host.layout.bytes; }
};

// Of Fit::summary(), some lines. `servers`: where a plan may be from.
std::string SummaryOf(const ShapePlan& plan, const std::vector<std::string>& servers);
// Of Fit::report(), a line.
std::string ReportOf(const ShapePlan& plan);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_FIT_SHAPE_PLAN_H_
