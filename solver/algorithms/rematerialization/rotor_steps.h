// Rotor without slots: the least time of every part as an exact step function of its memory in
// bytes (RR-9302, Theorem 1; the recurrence stands in rotor_table.h). One instance answers every
// budget up to the one it was built for, exactly. The number of steps depends on the chain, a
// hundred a part at 50 stages, so it is for short chains; Build() gives up where there are too
// many.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_STEPS_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/rematerialization/rotor_part.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Immutable after Build(), thread-safe.
class RotorSteps {
 public:
  struct Options {
    int64_t memory_bytes = 0;  // the highest budget that ScheduleWithin() answers
    Saving saving = Saving::kAlways;
    size_t most_steps = 0;  // to keep; each takes BytesPerStep()
    int64_t most_work = 0;  // steps to look at, as a measure of time: some 3 ns each
  };

  // nullopt: it would take more steps, or more work, than allowed.
  // Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<std::optional<RotorSteps>> Build(const Chain& chain, const Options& options,
                                                         const SolveContext& context);
  static constexpr size_t BytesPerStep() { return sizeof(Step); }

  // The fastest schedule whose peak is at most `memory_bytes`; nullopt when there is none or it
  // would have more than kMaxOperations. Requires: memory_bytes is at most the options'.
  std::optional<Schedule> ScheduleWithin(int64_t memory_bytes) const;

 private:
  // From `bytes` on the part loses `lost` seconds.
  struct Step {
    int64_t bytes = 0;
    double lost = 0;
  };
  struct Part {  // steps_[begin..end): bytes grow, lost falls
    size_t begin = 0;
    size_t end = 0;
  };

  RotorSteps(const Chain& chain, const Options& options);

  bool FillPart(int s, int t);
  void Lower(int s, int k, int t, int64_t sweep_need);
  void LowerBySaving(int s, int t);
  void Take(const Step& step);
  double LostAt(int s, int t, int64_t bytes) const;
  RotorChoice BestChoice(const RotorPart& part) const;
  const Part& PartOf(int s, int t) const { return parts_[index_(s, t)]; }

  Options options_;
  int64_t input_bytes_;
  int64_t most_part_bytes_;  // of memory that a part can have at all
  PartSizes<int64_t> sizes_;
  std::vector<double> prefix_;  // forward seconds before each stage, ties included
  double least_gain_;           // a step that gains less is noise
  Triangle index_;
  std::vector<Part> parts_;
  std::vector<Step> steps_;

  // Only while building.
  int64_t work_ = 0;
  std::vector<Step> best_;   // of the part in work so far
  std::vector<Step> other_;  // one more choice
  std::vector<Step> merged_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_STEPS_H_
