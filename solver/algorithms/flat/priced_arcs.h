// The arcs of a chain with a link, each also as one that offloads what it leaves, with a price.
//
// A plan that offloads ends each copy to the host before the loss and begins each copy back behind
// it. With F, B the compute times before and behind the loss's backward begins, R what is
// recomputed, and O, P the times of its copies to the host and back, its makespan is at least
//   max(F, O) + max(B + R, P) >= (1 - x) F + x O + (1 - y) (B + R) + y P     for x, y in 0..1
// which is additive over pieces: the least of it over all plans is a lower bound on all makespans,
// and the plan that has it is a good one. Values on their way take no memory here.
#ifndef STOWAGE_SOLVER_ALGORITHMS_FLAT_PRICED_ARCS_H_
#define STOWAGE_SOLVER_ALGORITHMS_FLAT_PRICED_ARCS_H_

#include <cstdint>
#include <vector>

#include "solver/algorithms/flat/plan_arcs.h"
#include "solver/model/platform.h"

namespace stowage {

// What a second of the link takes of the makespan; 1 minus it is what a second of compute takes.
struct CopyPrices {
  double offload = 0;   // x
  double prefetch = 0;  // y
};

// Of what an arc leaves, once in each direction.
double OffloadSeconds(const Arc& arc, const Platform& platform);
double PrefetchSeconds(const Arc& arc, const Platform& platform);

// Thread-safe. Borrows the others.
class PricedArcs final : public PlanArcs {
 public:
  PricedArcs(const PlanArcs& arcs, const Platform& platform, const CopyPrices& prices)
      : arcs_(arcs), platform_(platform), prices_(prices) {}

  int positions() const override { return arcs_.positions(); }
  int64_t most_arcs() const override { return 2 * arcs_.most_arcs(); }
  int64_t start_bytes() const override { return arcs_.start_bytes(); }
  int64_t end_need() const override { return arcs_.end_need(); }
  int64_t end_sweep_need() const override { return arcs_.end_sweep_need(); }
  int64_t end_backward_need() const override { return arcs_.end_backward_need(); }
  double seconds_per_tick() const override { return arcs_.seconds_per_tick(); }
  int64_t tick_step() const override { return 1; }
  void From(int position, int64_t room, std::vector<Arc>* arcs) const override;
  Piece PieceOf(int position, int to, bool recomputed) const override {
    return arcs_.PieceOf(position, to, recomputed);
  }

 private:
  int64_t Ticks(double seconds) const;

  const PlanArcs& arcs_;
  const Platform& platform_;
  const CopyPrices prices_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_FLAT_PRICED_ARCS_H_
