// The dynamic program of rotor over memory slots: RR-9302, Theorem 1, Algorithms 1 and 2.
//
//   letter           meaning                                                           unit
//   C(s,t,m)         least time of part [s..t] within m, its input not counted         s
//   m_all(s,t)       need of running stage s saved: PartSizes::SaveNeed()              slots
//   m_∅(s..s'-1, t)  need of the sweep F_ck s, F_∅ s+1 .. s'-1: SweepNeed + δ^t        slots
//   uF, uB           duration of a forward, a backward                                 s
//   ā^s, a^s         everything that stage s saves, its output                         slots
//
//   C(s,s,m) = uF_s + uB_s                                       if m >= m_all(s,s)
//   C(s,t,m) = min( uF_s + uB_s + C(s+1,t, m - ā^s)              if m >= m_all(s,t),
//                   min over s' in s+1..t of  Σ_{k=s}^{s'-1} uF_k + C(s',t, m - a^(s'-1))
//                                             + C(s,s'-1,m)      if m >= m_∅(s..s'-1, t) )
// Saving, of a part of one stage, too, is the least over the stage's ways, each with its ā^s and
// uB_s (save_ways.h). The table holds the time lost, C - Σ(uF + uB) over the part. Saving a stage
// in its own way then adds nothing, and single precision suffices (a relative error of about 1e-6
// of the time lost). Each forward of a sweep is charged slightly more than it takes, 1e-6 of all
// forwards in total for one sweep over the chain. Of equally fast schedules one with few operations
// wins; where recomputation is almost free, the longest of them are too long to use.
//
// Departures from the report: the table is filled by memory level, then by part
// (kernels/min_plus.h), since Algorithm 1's loop over ascending s reads entries before they are
// computed; the sweep of Algorithm 2 ends at s'-1; the budget of the root excludes a^0; the held
// gradient δ^t is rounded to slots separately from the rest of a need.
//
// Choices are not stored. A schedule is reconstructed by evaluating the minimum again along its
// path. Time O(L^3 levels) at most. Memory: one float per level for each of the (L+1)(L+2)/2 parts,
// except levels at which the part is infeasible or loses no time.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_TABLE_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
    int64_t levels = 0;  // the highest level that can be queried; may exceed grid.slots
    Saving saving = Saving::kAlways;
    int64_t lowest_level = 0;  // the lowest; entries that only lower levels reach are not computed
  };

  // Uses the threads of `context` and reports progress to it. Errors: CANCELLED once context.stop
  // is set. Requires: WorkingBytes() is less than INT64_MAX.
  static absl::StatusOr<RotorTable> Build(const Chain& chain, const Options& options,
                                          const SolveContext& context);
  // An upper bound on the bytes that Build() allocates for a chain of this length. INT64_MAX where
  // the number of levels is not supported.
  static int64_t WorkingBytes(const Chain& chain, int64_t levels);

  RotorTable(RotorTable&&) = default;
  RotorTable& operator=(RotorTable&&) = default;

  const SlotGrid& grid() const { return options_.grid; }
  int64_t levels() const { return options_.levels; }
  int64_t lowest_level() const { return options_.lowest_level; }

  // The time lost by the whole chain within `level` slots, its input included; nullopt if nothing
  // fits. Requires: lowest_level() <= level <= levels().
  std::optional<double> LostSecondsAt(int64_t level) const;
  // The following functions are about part [s..t], stages numbered from 0, its input not counted.

  // An estimate of the seconds that the part loses within `bytes`: the value at the lowest feasible
  // level that is at least `levels_up` above the level of `bytes`. For heuristics only.
  double EstimateLostSeconds(int s, int t, int64_t bytes, int64_t levels_up) const;
  // seconds[m] = min(seconds[m], base + the seconds that the part loses at level m) for every m;
  // infinite where nothing fits. Levels above the highest that a part starting at s can have use
  // the value at that level. This and the next two require: lowest_level() is 0.
  void LowerToLostSeconds(int s, int t, double base, std::span<double> seconds) const;
  double LostSecondsOf(int s, int t, int64_t level) const;
  // The fastest schedule of the part; nullopt as for ScheduleAt().
  std::optional<Schedule> PartScheduleAt(int s, int t, int64_t level) const;
  // The seconds of one forward of each of the stages s..k, tie costs included.
  double SweepSeconds(int s, int k) const { return seconds_ * (sweep_end_[k + 1] - prefix_[s]); }
  // The fastest schedule of the whole chain within `level`. nullopt if there is none or it would
  // have more than kMaxOperations operations. Requires: lowest_level() <= level <= levels().
  std::optional<Schedule> ScheduleAt(int64_t level) const;

 private:
  RotorTable(const Chain& chain, const Options& options);

  absl::Status FillNeeds(const SolveContext& context);
  void PlaceRows();
  absl::Status FillChunks(const SolveContext& context);
  TableView View() const;
  void LowerLeastByWays(int s, int32_t* row) const;
  RotorChoice BestChoice(const TableView& view, const RotorPart& part) const;
  RotorChoice BestSaving(const TableView& view, const RotorPart& part, float* lost) const;
  std::optional<Schedule> Unroll(const RotorPart& root) const;
  std::span<const OtherWay> OtherWaysOf(int s) const {
    if (ways_.empty()) return {};
    return std::span(ways_).subspan(static_cast<size_t>(first_way_[s]),
                                    static_cast<size_t>(first_way_[s + 1] - first_way_[s]));
  }
  int64_t RootLevel(int64_t level) const { return level - input_slots_; }

  Options options_;
  int64_t input_slots_;
  PartSizes<int32_t> sizes_;
  double seconds_;                // the table's unit of time; a power of two, or kNoTime
  std::vector<float> sweep_end_;  // see TableView
  std::vector<float> prefix_;
  std::vector<int32_t> first_way_;  // see TableView; empty where no stage has other ways
  std::vector<OtherWay> ways_;
  std::vector<int32_t> top_;     // by row: the highest level that is ever read
  std::vector<int32_t> bottom_;  // by block of rows: the lowest level that is ever read
  std::vector<ChunkRows> rows_;
  int chunks_ = 0;
  LargeBuffer<float> values_;

  // Scratch memory of Build(): see TableView.
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
