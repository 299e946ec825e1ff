// The time of every sub-sequence of a chain within every share of the memory, in either mode: Mixed
// Mode's E, G and F = min(E, G) (Tang et al., Equation 2).
//
// Positions 0..N lie between the chain's N = L+1 stages ("operators" in the paper); sub-sequence
// [i,j) is stages i+1..j.
//   E(i,j,δ)  seconds: rotor's time of those stages within δ slots, all in eager mode
//             (rematerialization/rotor_table.h)
//   G(i,j,δ)  seconds: rotor's time of their units in graph mode, plus graph_entry_seconds once;
//             infinite where the sub-sequence cuts a unit or contains one without a graph mode
//
// Memory: a sub-sequence's share covers its output but not its input, which belongs to the share
// before it (the chain's input to none), and the gradient of its output at all times. While it
// waits for that gradient it holds no more than its share. So sub-sequences whose shares add up to
// the budget fit together.
//
// Equation 3 of the paper, which moves a control-flow operator to an eager neighbour, adds nothing:
// Equation 1 tries each of its splits of [i,j) as a split of its own.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_MODE_TABLES_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_MODE_TABLES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/modes/graph_units.h"
#include "solver/algorithms/rematerialization/rotor_table.h"
#include "solver/algorithms/slot_grid.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Stages begin+1..end in one mode, within `share` slots.
struct SubSequence {
  int begin = 0;
  int end = 0;
  Mode mode = Mode::kEager;
  int64_t share = 0;

  bool operator==(const SubSequence&) const = default;
};

// The schedule of consecutive sub-sequences: their operations up to the first backward, in order,
// then the rest of each in reverse order. nullopt when that is more than kMaxOperations operations.
std::optional<Schedule> JoinSubSequences(const std::vector<Schedule>& sequences);

// Immutable after Build(), thread-safe.
class ModeTables {
 public:
  struct Options {
    SlotGrid grid;
    int64_t levels = 0;  // the highest budget in slots, the chain's input included
  };

  // O(N^3 levels) time at most, for each mode. Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<ModeTables> Build(const Chain& chain, const Options& options,
                                          const SolveContext& context);
  // An upper bound on the bytes that Build() allocates; INT64_MAX on overflow.
  static int64_t WorkingBytes(const Chain& chain, int64_t levels);

  int operators() const { return static_cast<int>(eager_seconds_.size()) - 1; }  // N
  // Shares run from 0 to shares() - 1, which is the highest budget less the chain's input.
  size_t shares() const { return shares_; }
  int64_t input_slots() const { return input_slots_; }
  const SlotGrid& grid() const { return eager_.grid(); }

  // Seconds; infinite: nothing fits. Requires: i < j and share < shares().
  double Eager(int i, int j, int64_t share) const;  // E
  double Graph(int i, int j, int64_t share) const;  // G
  double Fastest(int i, int j, int64_t share) const {
    return std::min(Eager(i, j, share), Graph(i, j, share));
  }
  // Writes F(i,j,·), shares() values.
  void FillFastest(int i, int j, double* seconds) const;
  Mode FastestMode(int i, int j, int64_t share) const {
    return Graph(i, j, share) < Eager(i, j, share) ? Mode::kGraph : Mode::kEager;
  }

  // The joined schedule of sub-sequences that cover 0..N in order. nullopt when one does not fit
  // its share, or when there are more than kMaxOperations operations.
  std::optional<Schedule> ToSchedule(const std::vector<SubSequence>& sequences) const;

 private:
  ModeTables(const Chain& chain, GraphUnits units, RotorTable eager, RotorTable graph);

  // Seconds without recomputation, to which a table adds what recomputation costs.
  // Requires: units_.IsRun(i, j).
  double GraphBase(int i, int j) const;
  double EagerBase(int i, int j) const {
    return eager_seconds_[static_cast<size_t>(j)] - eager_seconds_[static_cast<size_t>(i)];
  }
  // Of one sub-sequence, with the chain's stage numbers.
  std::optional<Schedule> ScheduleOf(const SubSequence& sequence) const;

  GraphUnits units_;
  RotorTable eager_;
  RotorTable graph_;  // over the units
  double entry_seconds_;
  int64_t input_slots_;
  size_t shares_;
  std::vector<double> eager_seconds_;  // by position: one step of all stages before it
  std::vector<double> graph_seconds_;  // [u]: one step of the first u units
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_MODE_TABLES_H_
