// The dynamic program of rotor over memory slots: RR-9302, Theorem 1, Algorithms 1 and 2.
//
// C(s,t,m), the least time of part [s..t] within m slots, its input counted apart:
//   C(s,s,m) = uF_s + uB_s                                       if m >= m_all(s,s)
//   C(s,t,m) = min( uF_s + uB_s + C(s+1,t, m - ā^s)              if m >= m_all(s,t),
//                   min over s' in s+1..t of  Σ_{k=s}^{s'-1} uF_k + C(s',t, m - a^(s'-1))
//                                             + C(s,s'-1,m)      if m >= m_∅(s..s'-1, t) )
// The table keeps C - Σ(uF + uB), the time lost: saving then adds nothing. Each forward of a sweep
// costs 1e-15 of all forwards more than it takes, so that of equally fast schedules the one with
// the fewest operations wins; where recomputing is all but free there are absurdly long ones.
// Departures: filled by the length of the part (Algorithm 1's loop over s ascending reads entries
// that are not there yet); the sweep of Algorithm 2 ends at s'-1; the root's limit leaves out a^0.
//
// Table: (L+1)(L+2)/2 rows of levels()+1 doubles; O(L^3 levels) time.
#ifndef STOWAGE_SOLVER_ALGORITHMS_ROTOR_TABLE_H_
#define STOWAGE_SOLVER_ALGORITHMS_ROTOR_TABLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/rotor_part.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// How bytes become slots: `slots` of them make `bytes`.
struct SlotGrid {
  enum class Rounding {
    kUp,       // what fits in slots fits in bytes
    kNearest,  // less is lost, but the schedule's true peak must be checked
  };

  int64_t bytes = 0;
  int64_t slots = 0;
  Rounding rounding = Rounding::kUp;

  int64_t Slots(int64_t size_bytes) const;
  // Whether the grid rounds none of the sizes that are multiples of `granule_bytes`.
  bool IsExact(int64_t granule_bytes) const { return bytes == slots * granule_bytes; }
};

// Immutable after Build(). Borrows the chain.
class RotorTable {
 public:
  // A table with levels 0..levels. Reports progress from `context`.
  // Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<RotorTable> Build(const Chain& chain, const SlotGrid& grid, int64_t levels,
                                          const SolveContext& context);
  static int64_t WorkingBytes(const Chain& chain, int64_t levels);

  const SlotGrid& grid() const { return grid_; }
  int64_t levels() const { return static_cast<int64_t>(width_) - 1; }

  // The fastest schedule within `level` slots, the chain's input included; nullopt when there is
  // none or it would have more than kMaxOperations. Requires: level <= levels().
  std::optional<Schedule> ScheduleAt(int64_t level) const;

 private:
  RotorTable(const Chain& chain, const SlotGrid& grid, int64_t levels);

  double SweepSeconds(int k) const { return chain_->stage(k).forward_seconds + tie_seconds_; }
  void FillRow(int s, int t);
  RotorChoice BestChoice(const RotorPart& part) const;
  double* Row(int s, int t) { return lost_seconds_.get() + index_(s, t) * width_; }
  const double* Row(int s, int t) const { return lost_seconds_.get() + index_(s, t) * width_; }

  const Chain* chain_;
  SlotGrid grid_;
  double tie_seconds_;  // what an operation of a sweep costs more than its time
  PairIndex index_;
  size_t width_;                       // levels + 1
  std::vector<int64_t> output_slots_;  // |a^l|, 0..L+1
  std::vector<int64_t> saved_slots_;   // |ā^l|, 0 unused
  // Written only by Build(), row by row: clearing gigabytes at once could not be cancelled.
  std::unique_ptr<double[]> lost_seconds_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_ROTOR_TABLE_H_
