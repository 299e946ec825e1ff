// The least memory of any split of a chain into sub-sequences of one mode each, to the byte, and a
// schedule that needs no more. It is a shortest path over positions:
//   Least(0) = 0,  Least(i) = min over j < i and both modes of  Least(j) + K(j,i,mode)
// with K(j,i,mode) rotor's least memory, in bytes, of stages j+1..i or of their units in graph mode
// (rotor_minimum.h). The chain's input comes on top.
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
  // O(N^3) time, O(N^2) memory. Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<MixedMinimum> Build(const Chain& chain, const SolveContext& context);
  // An upper bound on the bytes that Build() allocates.
  static int64_t WorkingBytes(const Chain& chain);

  // The shares of the split that needs the least, and the chain's input.
  int64_t min_bytes() const { return min_bytes_; }
  // A schedule with a peak of at most min_bytes(); nullopt when it would have more than
  // kMaxOperations operations.
  std::optional<Schedule> LeastSchedule() const;

 private:
  MixedMinimum(GraphUnits units, RotorMinimum eager, RotorMinimum graph);

  absl::Status FindPath(const SolveContext& context);
  int64_t LeastOf(int i, int j, Mode mode) const;

  GraphUnits units_;
  RotorMinimum eager_;
  RotorMinimum graph_;                  // over the units
  std::vector<SubSequence> sequences_;  // the path; shares in bytes
  int64_t min_bytes_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_MINIMUM_H_
