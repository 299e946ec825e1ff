// What every sub-sequence of a chain costs within every share of the memory, in either mode: Mixed
// Mode's E, G and F = min(E, G) (Equation 2).
//
// Positions 0..N lie between the chain's N = L+1 stages: sub-sequence [i, j) is stages i+1..j.
//   E(i,j,δ)  rotor's time of those stages within δ slots, all eager (rotor_table.h)
//   G(i,j,δ)  rotor's time of their units in graph mode, and graph_entry_seconds once; infinite
//             where the sub-sequence cuts a unit or holds one without graph mode
// Its output belongs to its own share, its input to the one before, the chain's input to none; the
// gradient of its output is counted throughout. While it waits for that gradient it holds no more
// than its share, so sub-sequences whose shares add up to the budget fit together.
//
// Equation 3, which moves a control-flow operator to an eager neighbour, asks for nothing more: of
// the splits of [i, j) into two that it lists, Equation 1 tries each as a split of its own.
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

// Operators [begin, end) in one mode, within `share` slots.
struct SubSequence {
  int begin = 0;
  int end = 0;
  Mode mode = Mode::kEager;
  int64_t share = 0;

  bool operator==(const SubSequence&) const = default;
};

// The schedule of sub-sequences that follow one another: their forward sweeps in order, then their
// backward parts in reverse; each is split at its first backward. nullopt where that would be more
// than kMaxOperations.
std::optional<Schedule> JoinSubSequences(const std::vector<Schedule>& sequences);

// Immutable after Build(), thread-safe.
class ModeTables {
 public:
  struct Options {
    SlotGrid grid;
    int64_t levels = 0;  // the highest budget, the chain's input included
  };

  // Errors: CANCELLED once context.stop is set. O(N^3 levels) time at most, twice.
  static absl::StatusOr<ModeTables> Build(const Chain& chain, const Options& options,
                                          const SolveContext& context);
  // An upper bound on what Build() allocates; INT64_MAX where that is beyond all machines.
  static int64_t WorkingBytes(const Chain& chain, int64_t levels);

  int operators() const { return static_cast<int>(eager_seconds_.size()) - 1; }  // N
  // Shares go from 0 to count - 1, which is what the highest budget leaves beside the input.
  size_t shares() const { return shares_; }
  int64_t input_slots() const { return input_slots_; }
  const SlotGrid& grid() const { return eager_.grid(); }

  // Seconds; infinite where nothing fits.
  double Eager(int i, int j, int64_t share) const;  // E
  double Graph(int i, int j, int64_t share) const;  // G
  double Fastest(int i, int j, int64_t share) const {
    return std::min(Eager(i, j, share), Graph(i, j, share));
  }
  // F(i,j,·): shares() values.
  void FillFastest(int i, int j, double* seconds) const;
  Mode FastestMode(int i, int j, int64_t share) const {
    return Graph(i, j, share) < Eager(i, j, share) ? Mode::kGraph : Mode::kEager;
  }

  // The schedule of sub-sequences that follow one another from 0 to N, joined. nullopt where one
  // does not fit its share or there are more than kMaxOperations.
  std::optional<Schedule> ToSchedule(const std::vector<SubSequence>& sequences) const;

 private:
  ModeTables(const Chain& chain, GraphUnits units, RotorTable eager, RotorTable graph);

  // All of it but what the table says is lost. Requires: units_.Run(i, j).
  double GraphBase(int i, int j) const;
  double EagerBase(int i, int j) const {
    return eager_seconds_[static_cast<size_t>(j)] - eager_seconds_[static_cast<size_t>(i)];
  }
  // Of one sub-sequence, in the chain's numbers.
  std::optional<Schedule> ScheduleOf(const SubSequence& sequence) const;

  GraphUnits units_;
  RotorTable eager_;
  RotorTable graph_;  // over the units
  double entry_seconds_;
  int64_t input_slots_;
  size_t shares_;
  std::vector<double> eager_seconds_;  // by position: of all stages before it
  std::vector<double> graph_seconds_;  // by number of units: of all units before
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_MODE_TABLES_H_
