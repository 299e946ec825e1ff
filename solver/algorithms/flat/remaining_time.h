// Lower bounds on the time that the rest of a flat plan recomputes, given what memory is left.
//
// Let f(p, r) be the least ticks of the pieces from position p on within r bytes beside what the
// device keeps there. Without rounding
//   f(end, r) = 0 where r >= the loss's need
//   f(p, r)   = min over arcs from p with need <= r of  ticks + f(to, r - add)
// and it falls with r. The bound is the same recurrence with every f replaced by a convex function
// of r that is nowhere above it, a chain of few vertices. It has the value of the best Lagrange
// multiplier for each p and r, with the needs counted besides.
#ifndef STOWAGE_SOLVER_ALGORITHMS_FLAT_REMAINING_TIME_H_
#define STOWAGE_SOLVER_ALGORITHMS_FLAT_REMAINING_TIME_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/flat/plan_arcs.h"
#include "solver/algorithms/solver.h"

namespace stowage {

// The least memory of a plan. O(arcs). Errors: CANCELLED once `context.stop` is set.
absl::StatusOr<int64_t> LeastBytesOf(const PlanArcs& arcs, const SolveContext& context);

// Immutable.
class RemainingTime {
 public:
  // O(arcs * kMaxVertices). Errors: CANCELLED once `context.stop` is set.
  static absl::StatusOr<RemainingTime> Of(const PlanArcs& arcs, int64_t memory_bytes,
                                          const SolveContext& context);
  static int64_t WorkingBytes(int positions);

  // Whether the pieces from `position` on fit when the device keeps `kept` there. Exact.
  bool Fits(int position, int64_t kept) const {
    const auto at = static_cast<size_t>(position);
    return !hulls_[at].empty() && kept <= memory_bytes_ - least_need_[at];
  }

  // Whether the arc itself does.
  bool FitsArc(const Arc& arc, int64_t kept) const { return kept <= memory_bytes_ - arc.need; }

  // A lower bound on their ticks, of rising `kept`: looks from vertex `*at` of the last call on,
  // which starts as SIZE_MAX. Requires: Fits().
  int64_t LeastTicks(int position, int64_t kept, size_t* at) const;
  int64_t LeastTicks(int position, int64_t kept) const {
    size_t at = SIZE_MAX;
    return LeastTicks(position, kept, &at);
  }

 private:
  // A point of a convex, falling function of the bytes left.
  struct Vertex {
    int64_t bytes = 0;
    double ticks = 0;
  };
  using Hull = std::vector<Vertex>;

  static double Slope(const Vertex& left, const Vertex& right);
  static double ValueAt(const Hull& hull, size_t left, int64_t bytes);
  static void Shift(const Hull& behind, const Arc& arc, int64_t room, Hull* shifted);
  static void Merge(const Hull& added, Hull* hull, Hull* scratch);
  static void Thin(Hull* hull);

  int64_t memory_bytes_ = 0;
  std::vector<int64_t> least_need_;  // by position: the least memory beside k
  std::vector<Hull> hulls_;          // by position; empty where nothing fits
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_FLAT_REMAINING_TIME_H_
