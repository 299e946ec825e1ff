// The least memory of any persistent schedule, to the byte, and a schedule that needs no more.
//
// K(s,t), the least memory of part [s..t], follows Theorem 1 with peaks in the place of times:
//   K(s,s) = m_all(s,s)
//   K(s,t) = min( max(m_all(s,t), ā^s + K(s+1,t)),
//                 min over s' of max(m_∅(s..s'-1, t), a^(s'-1) + K(s',t), K(s,s'-1)) )
// C(s,t,m) of Theorem 1 is finite exactly when K(s,t) <= m. Table: (L+1)(L+2)/2 numbers; O(L^3).
#ifndef STOWAGE_SOLVER_ALGORITHMS_ROTOR_MINIMUM_H_
#define STOWAGE_SOLVER_ALGORITHMS_ROTOR_MINIMUM_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "solver/algorithms/rotor_part.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Immutable after Build(). Borrows the chain.
class RotorMinimum {
 public:
  // Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<RotorMinimum> Build(const Chain& chain, const SolveContext& context);
  static int64_t WorkingBytes(const Chain& chain);

  // Of the whole chain, its input included.
  int64_t least_bytes() const;
  // A schedule whose peak is least_bytes(); nullopt when it would have more than kMaxOperations.
  std::optional<Schedule> LeastSchedule() const;

 private:
  explicit RotorMinimum(const Chain& chain);

  // The best way to start part [s..t], and what it needs.
  struct Start {
    int64_t bytes = 0;
    int split = 0;
  };
  Start BestStart(int s, int t) const;

  const Chain* chain_;
  PairIndex index_;
  // K. Written only by Build(), which clears nothing: that could not be cancelled.
  std::unique_ptr<int64_t[]> least_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_ROTOR_MINIMUM_H_
