// Rotor without slots: the least time C(s,t,m) of every part as an exact step function of its
// memory m in bytes (RR-9302, Theorem 1; the recurrence is in rotor_table.h). As functions of m:
//   C(s,t,.) = min( C(s+1,t, . - ā^s)  from SaveNeed(s,t) on,
//                   min over k of  Σ_{s..k} uF + C(k+1,t, . - a^k) + C(s,k, .)
//                                                                from SweepNeed(s..k) + δ^t on )
// minus Σ(uF + uB): the time lost, each as the list of its steps (fastest_steps.h). The last
// forward of a sweep is charged as a replay. Parts whose input may leave early have a second
// function, as leaving_table.h has it. Saving has a case for each way to save the stage, which adds
// what its backward loses (save_ways.h).
//
// One table gives the optimum for every budget up to options.memory_bytes. The number of steps
// depends on the chain, about 100 per part at 50 stages, so this is for short chains; Build() stops
// at a limit.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_STEPS_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/fastest_steps.h"
#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/rematerialization/fastest_choice.h"
#include "solver/algorithms/rematerialization/save_ways.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Immutable after Build(), thread-safe.
class RotorSteps {
 public:
  struct Options {
    int64_t memory_bytes = 0;  // the highest budget, inclusive
    Saving saving = Saving::kAlways;
    size_t max_steps = 0;  // limit on stored steps, of BytesPerStep() bytes each
    int64_t max_work = 0;  // limit on merged steps: about 3 ns each
  };

  // nullopt if the table exceeds max_steps or max_work. Allocates max_steps steps at once.
  // Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<std::optional<RotorSteps>> Build(const Chain& chain, const Options& options,
                                                         const SolveContext& context);
  static constexpr size_t BytesPerStep() { return sizeof(Step); }

  // The fastest persistent schedule whose peak is at most `memory_bytes`. nullopt if there is none
  // or it would have more than kMaxOperations operations.
  // Requires: memory_bytes <= Options::memory_bytes.
  std::optional<Schedule> ScheduleWithin(int64_t memory_bytes) const;

 private:
  struct Step {
    int64_t peak_bytes = 0;
    double lost_seconds = 0;
  };
  struct Part {  // of steps_
    size_t begin = 0;
    size_t count = 0;
  };

  RotorSteps(const Chain& chain, const Options& options);

  bool FillPart(int s, int t, bool leaves);
  void LowerBySaving(int s, int t, bool leaves);
  double LostAt(int s, int t, bool leaves, int64_t bytes) const;
  // `leaves`: of E; that is C where stage s reads its input in the backward.
  std::span<const Step> StepsOf(int s, int t, bool leaves) const {
    const bool own = leaves && sizes_.may_leave[s] != 0;
    const Part& part = (own ? leaving_parts_ : parts_)[index_(s, t)];
    return {steps_.data() + part.begin, part.count};
  }

  Options options_;
  int64_t input_bytes_;
  int64_t max_part_bytes_;  // the budget, without the chain's input where that stays
  PartSizes<int64_t> sizes_;
  SaveWays<int64_t> ways_;
  SweepTimes times_;
  Triangle index_;
  std::vector<Part> parts_;
  std::vector<Part> leaving_parts_;  // empty where no input may leave
  std::vector<Step> steps_;

  // Only while building.
  int64_t work_ = 0;
  FastestSteps<Step> fastest_;  // of the current part
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_STEPS_H_
