// The least memory of any split of a chain into sub-sequences of one mode, to the byte, and a
// schedule that needs no more: the shortest path over splits, each sub-sequence counting rotor's
// least for its stages or its units (rotor_minimum.h).
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_MINIMUM_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_MINIMUM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/modes/graph_units.h"
#include "solver/algorithms/modes/mode_tables.h"
#include "solver/algorithms/rematerialization/rotor_minimum.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Immutable after Build(), thread-safe.
class MixedMinimum {
 public:
  // Errors: CANCELLED once context.stop is set. O(N^3).
  static absl::StatusOr<MixedMinimum> Build(const Chain& chain, const SolveContext& context);
  static int64_t WorkingBytes(const Chain& chain);

  // The shares of the split that needs the least, and the chain's input.
  int64_t least_bytes() const { return least_bytes_; }
  // Its peak is at most least_bytes(); nullopt when it would have more than kMaxOperations.
  std::optional<Schedule> LeastSchedule() const;

 private:
  MixedMinimum(GraphUnits units, RotorMinimum eager, RotorMinimum graph);

  absl::Status FindPath(const SolveContext& context);
  int64_t Least(int i, int j, Mode mode) const;

  GraphUnits units_;
  RotorMinimum eager_;
  RotorMinimum graph_;                  // over the units
  std::vector<SubSequence> sequences_;  // shares in bytes
  int64_t least_bytes_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_MINIMUM_H_
