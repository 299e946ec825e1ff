// The least memory of any persistent schedule, exact in bytes, and a schedule that attains it.
//
// The table holds K(s,t) of FillLeast() (part_sizes.h): C(s,t,m) of RR-9302, Theorem 1 is finite if
// and only if K(s,t) <= m. (L+1)(L+2)/2 entries of 8 bytes; O(L^3) time, vectorized.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_MINIMUM_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_MINIMUM_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/rematerialization/rotor_part.h"
#include "solver/algorithms/solver.h"
#include "solver/base/large_buffer.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Immutable after Build(), thread-safe.
class RotorMinimum {
 public:
  // Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<RotorMinimum> Build(const Chain& chain, Saving saving,
                                            const SolveContext& context);
  // An upper bound on the bytes that Build() allocates.
  static int64_t WorkingBytes(const Chain& chain);

  // The least peak of the whole chain, its input included.
  int64_t min_bytes() const;
  // K(s,t): stages numbered from 0, without the part's input.
  int64_t min_bytes(int s, int t) const { return least_[index_(s, t)]; }
  int64_t input_bytes() const { return input_bytes_; }
  const PartSizes<int64_t>& sizes() const { return sizes_; }
  // A schedule whose peak is min_bytes(); nullopt when it would have more than kMaxOperations.
  std::optional<Schedule> LeastSchedule() const { return LeastSchedule(0, sizes_.stages() - 1); }
  // The same for part [s..t] alone, stages numbered from 0; its input is not counted.
  std::optional<Schedule> LeastSchedule(int s, int t) const;

 private:
  RotorMinimum(const Chain& chain, Saving saving);

  RotorChoice BestChoice(const RotorPart& part) const;

  int64_t input_bytes_;
  PartSizes<int64_t> sizes_;
  Triangle index_;
  LargeBuffer<int64_t> least_;  // K
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_MINIMUM_H_
