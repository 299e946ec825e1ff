// The dynamic program of rotor over memory slots: RR-9302, Theorem 1, Algorithms 1 and 2.
//
// C(s,t,m), the least time of part [s..t] within m slots, its input counted apart:
//   C(s,s,m) = uF_s + uB_s                                       if m >= m_all(s,s)
//   C(s,t,m) = min( uF_s + uB_s + C(s+1,t, m - ā^s)              if m >= m_all(s,t),
//                   min over s' in s+1..t of  Σ_{k=s}^{s'-1} uF_k + C(s',t, m - a^(s'-1))
//                                             + C(s,s'-1,m)      if m >= m_∅(s..s'-1, t) )
// The table keeps C - Σ(uF + uB), the time lost: saving then adds nothing, and single precision is
// enough (the time lost is off by some 1e-6 of itself). Each forward of a sweep costs a little more
// than it takes, 1e-6 of all forwards for the whole chain, so that of equally fast schedules one
// with few operations wins; where recomputing is all but free there are absurdly long ones.
// Departures: filled by memory level, then by part (kernels/min_plus.h; Algorithm 1's loop over s
// ascending reads entries that are not there yet); the sweep of Algorithm 2 ends at s'-1; the
// root's limit leaves out a^0; the gradient held meanwhile is rounded to slots apart from the rest
// of a need.
//
// No table of choices is kept: a schedule is read off by finding the minimum again on its way.
// O(L^3 levels) time at most; single-precision values of (L+1)(L+2)/2 parts at all levels, fewer
// where a part is not feasible yet, or costs nothing any more.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_TABLE_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_TABLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/rematerialization/rotor_part.h"
#include "solver/algorithms/slot_grid.h"
#include "solver/algorithms/solver.h"
#include "solver/base/large_buffer.h"
#include "solver/kernels/min_plus.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Immutable after Build(), thread-safe.
class RotorTable {
 public:
  struct Options {
    SlotGrid grid;
    int64_t levels = 0;  // the highest that ScheduleAt() answers; may be more than grid.slots
    Saving saving = Saving::kAlways;
    int64_t lowest_level = 0;  // the lowest: what only those below it can reach is left out
  };

  // Reports progress, and borrows threads, from `context`. Errors: CANCELLED once context.stop is
  // set. Requires: WorkingBytes() is less than INT64_MAX.
  static absl::StatusOr<RotorTable> Build(const Chain& chain, const Options& options,
                                          const SolveContext& context);
  // An upper bound on what Build() allocates, for any chain of that many stages; INT64_MAX where
  // that is beyond all machines.
  static int64_t WorkingBytes(const Chain& chain, int64_t levels);

  RotorTable(RotorTable&&) = default;
  RotorTable& operator=(RotorTable&&) = default;

  const SlotGrid& grid() const { return options_.grid; }
  int64_t levels() const { return options_.levels; }
  int64_t lowest_level() const { return options_.lowest_level; }

  // The time lost within `level` slots, the chain's input included; nullopt where nothing fits.
  // Requires of both: lowest_level() <= level <= levels().
  std::optional<double> LostSecondsAt(int64_t level) const;
  // For part [s..t], stages counted from 0, its input counted apart: what it loses within `bytes`,
  // by the nearest level from `levels_up` above it on that is enough for it. For guidance only.
  double EstimateLostSeconds(int s, int t, int64_t bytes, int64_t levels_up) const;
  // For part [s..t] likewise: seconds[m] = min(seconds[m], `base` and what it loses at level m), m
  // in 0 .. count - 1; infinite where nothing fits. Above what the whole chain's highest level
  // leaves to a part that begins at s, what it loses there.
  // Requires of the three: lowest_level() is 0.
  void LowerToLostSeconds(int s, int t, size_t count, double base, double* seconds) const;
  double LostSecondsOf(int s, int t, int64_t level) const;
  // The fastest sequence of that part; nullopt as for ScheduleAt().
  std::optional<Schedule> PartScheduleAt(int s, int t, int64_t level) const;
  // One forward of each of the stages s..k.
  double SweepSeconds(int s, int k) const { return seconds_ * (prefix_[k + 1] - prefix_[s]); }
  // The fastest schedule; nullopt when there is none or it would have more than kMaxOperations.
  std::optional<Schedule> ScheduleAt(int64_t level) const;

 private:
  RotorTable(const Chain& chain, const Options& options);

  absl::Status FillNeeds(const SolveContext& context);
  void PlaceRows();
  absl::Status FillChunks(const SolveContext& context);
  TableView View() const;
  RotorChoice BestChoice(const TableView& view, const RotorPart& part) const;
  int64_t RootLevel(int64_t level) const { return level - input_slots_; }

  Options options_;
  int64_t input_slots_;
  PartSizes<int32_t> sizes_;
  double seconds_;  // what 1 in the table means: a power of two
  std::vector<float> prefix_;
  std::vector<int32_t> top_;     // the highest level that anything asks a row for
  std::vector<int32_t> bottom_;  // and, by block of rows, the lowest
  std::vector<ChunkRows> rows_;
  int chunks_ = 0;
  LargeBuffer<float> values_;

  // Only while building.
  LargeBuffer<int32_t> least_;
  LargeBuffer<int32_t> most_;
  std::vector<BlockNeeds> needs_;
  LargeBuffer<float> right_;
  LargeBuffer<float> bounds_;
  std::vector<int32_t> first_group_;
  std::vector<float> below_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_TABLE_H_
