// The least memory of rotor's schedules on a chain with input_unread stages or with stages that can
// be saved in several ways, exact in bytes, and a schedule that attains it: RotorMinimum for parts
// whose input may leave early.
//
//   K(s,t)   least memory of part [s..t], its input not counted (part_sizes.h)
//   E(s,t)   the same where the input leaves once stage s has been saved, as rotor_part.h has it:
//            K(s,t) where the backward of s reads it, otherwise
//   E(s,t) = min( max(LeaveNeed(s,t), saved[s] - input[s] + K(s+1,t))       if may_save[s],
//                 min over k in s..t-1 of max(SweepNeed(s..k) + gradient[t],
//                                             output[k] + E(k+1,t), E(s,k)) )
// and K(s,t) splits into E(k+1,t) and K(s,k): the value a^k between the two parts may leave.
// Saving, of a part of one stage, too, is the least over the stage's ways (save_ways.h). Up to
// twice RotorMinimum's time and memory.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_LEAVING_MINIMUM_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_LEAVING_MINIMUM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/by_budget.h"
#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/rematerialization/rotor_part.h"
#include "solver/algorithms/rematerialization/save_ways.h"
#include "solver/algorithms/solver.h"
#include "solver/base/large_buffer.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Whether the least memory of the chain is not that of RotorMinimum: inputs may leave, or stages
// can be saved in several ways.
bool HasLeavingParts(const Chain& chain);

// The least plan of rotor of such a chain. nullopt: of another one, or the schedule would have more
// than kMaxOperations. Errors: CANCELLED once context.stop is set.
absl::StatusOr<std::optional<LeastPlan>> LeastPlanOfLeavingParts(const Chain& chain,
                                                                 const SolveContext& context);

// Immutable after Build(), thread-safe.
class LeavingMinimum {
 public:
  // Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<LeavingMinimum> Build(const Chain& chain, Saving saving,
                                              const SolveContext& context);
  // An upper bound on the bytes that Build() allocates.
  static int64_t WorkingBytes(const Chain& chain);

  // The least peak of the whole chain, its input included.
  int64_t least_bytes() const;
  // A schedule whose peak is least_bytes(); nullopt when it would have more than kMaxOperations.
  std::optional<Schedule> LeastSchedule() const;

 private:
  LeavingMinimum(const Chain& chain, Saving saving);

  void FillRow(int s, bool leaves);
  RotorChoice BestChoice(const RotorPart& part) const;
  // E of rows that have it, K of the others.
  const int64_t* Row(int s, bool leaves) const {
    return (leaves && sizes_.may_leave[s] != 0 ? leaving_ : staying_).get() + index_(s, s) - s;
  }

  int64_t input_bytes_;
  PartSizes<int64_t> sizes_;
  SaveWays<int64_t> ways_;
  Triangle index_;
  LargeBuffer<int64_t> staying_;  // K
  LargeBuffer<int64_t> leaving_;  // E, in rows that may leave
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_LEAVING_MINIMUM_H_
