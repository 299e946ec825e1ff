// Rotor's dynamic program over memory slots for chains with input_unread stages: RotorTable's
// recurrence (rotor_table.h), for parts whose input stays and for those whose input may leave. With
// the letters there, and a^(s-1) the input of part [s..t]:
//
//   C(s,t,m)   least time of part [s..t] within m, its input not counted
//   E(s,t,m)   the same where the input leaves once stage s has been saved: C(s,t,m) where the
//              backward of s reads it, otherwise
//   E(s,t,m) = min( uF_s + uB_s + C(s+1,t, m - ā^s + a^(s-1))   if m >= LeaveNeed(s,t),
//                   min over s' in s+1..t of  Σ_{k=s}^{s'-1} uF_k + E(s',t, m - a^(s'-1))
//                                             + E(s,s'-1,m)     if m >= m_∅(s..s'-1, t) )
// and C(s,t,m) splits into E(s',t, m - a^(s'-1)) and C(s,s'-1,m). Saving, of a part of one stage,
// too, is the least over the stage's ways, each with its ā^s and uB_s (save_ways.h). The last
// forward of a sweep is charged as a replay. Times are double precision; O(L^3 levels) time, O(L^2
// levels) memory.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_LEAVING_TABLE_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_LEAVING_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/rematerialization/fastest_choice.h"
#include "solver/algorithms/rematerialization/save_ways.h"
#include "solver/algorithms/slot_grid.h"
#include "solver/algorithms/solver.h"
#include "solver/base/large_buffer.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Immutable after Build(), thread-safe.
class LeavingTable {
 public:
  struct Options {
    SlotGrid grid;
    int64_t levels = 0;  // the highest level that can be queried; may exceed grid.slots
    Saving saving = Saving::kAlways;
  };

  // Reports progress to `context`. Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<LeavingTable> Build(const Chain& chain, const Options& options,
                                            const SolveContext& context);
  // An upper bound on the bytes that Build() allocates for a chain of this length.
  static int64_t WorkingBytes(const Chain& chain, int64_t levels);
  // The most levels that a chain of this length gets: those of about a second.
  static int64_t MaxLevels(const Chain& chain);

  const SlotGrid& grid() const { return options_.grid; }
  int64_t levels() const { return options_.levels; }
  int64_t lowest_level() const { return 0; }

  // The time lost by the whole chain within `level` slots, its input included; nullopt if nothing
  // fits. Requires: 0 <= level <= levels().
  std::optional<double> LostSecondsAt(int64_t level) const;
  // The fastest schedule of the whole chain within `level`. nullopt if there is none or it would
  // have more than kMaxOperations operations. Requires: 0 <= level <= levels().
  std::optional<Schedule> ScheduleAt(int64_t level) const;

 private:
  LeavingTable(const Chain& chain, const Options& options);

  void FillPart(int s, int t, bool leaves);
  void LowerBySaving(int s, int t, bool leaves, double* lost) const;
  void LowerBySplits(int s, int t, bool leaves, double* lost) const;
  double LostAt(int s, int t, bool leaves, int64_t level) const;
  double* Lost(int s, int t, bool leaves) const;
  size_t stride() const { return static_cast<size_t>(options_.levels) + 1; }

  Options options_;
  int64_t input_slots_;
  PartSizes<int32_t> sizes_;
  SaveWays<int32_t> ways_;
  SweepTimes times_;
  Triangle index_;
  std::vector<size_t> leaving_rows_;  // by s: where the parts of row s begin in leaving_
  LargeBuffer<double> staying_;       // C - Σ(uF + uB), by part and level
  LargeBuffer<double> leaving_;       // the same of E, in rows that may leave
  std::vector<int32_t> first_;        // by part: the lowest level at which C is finite
  std::vector<int32_t> first_leaving_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_LEAVING_TABLE_H_
