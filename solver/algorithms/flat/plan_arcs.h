// The choices of a flat plan as arcs of a graph: a path from position 1 to the end is a plan.
//
// What a plan takes is additive, so the fastest one is a shortest path with one resource. Let k be
// what the device keeps when the first sweep reaches a position: what all pieces before it left,
// the value in front of it included. A piece has
//   need   what its hungriest operation takes beside k, in the first sweep or in its backward
//   add    what it leaves: behind it the device keeps k + add
//   ticks  the time of the forwards that run again, and of what a backward takes longer by an
//          option
// and fits where k + need is at most the memory. What it leaves may be offloaded, if there is a
// link, once or in several copies.
#ifndef STOWAGE_SOLVER_ALGORITHMS_FLAT_PLAN_ARCS_H_
#define STOWAGE_SOLVER_ALGORITHMS_FLAT_PLAN_ARCS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "solver/algorithms/flat/flat_plan.h"
#include "solver/model/chain.h"

namespace stowage {

// Several arcs one after the other are one arc, too.
struct Arc {
  int to = 0;  // a position behind the one that it begins at
  bool recomputed = false;
  int save_option = 0;  // of a saved stage
  int64_t need = 0;
  int64_t add = 0;
  int64_t ticks = 0;
  // With a link: of `need`, that of the first sweep and that of the backward; how many copies what
  // it leaves takes, 0 where it may not leave the device; and whether it does.
  int64_t sweep_need = 0;
  int64_t backward_need = 0;
  int copies = 0;
  bool offloaded = false;
};

// Immutable, thread-safe.
class PlanArcs {
 public:
  virtual ~PlanArcs() = default;

  virtual int positions() const = 0;        // 1..positions(), then the end, positions() + 1
  virtual int64_t most_arcs() const = 0;    // at least as many as there are
  virtual int64_t start_bytes() const = 0;  // k at position 1
  virtual int64_t end_need() const = 0;     // of the loss, beside k at the end
  virtual int64_t end_sweep_need() const = 0;
  virtual int64_t end_backward_need() const = 0;
  virtual double seconds_per_tick() const = 0;
  virtual int64_t tick_step() const = 0;  // divides the ticks of every arc; at least 1

  // Sets `arcs` to those that begin at `position`, without some of those that need more than
  // `room`. O(their number).
  virtual void From(int position, int64_t room, std::vector<Arc>* arcs) const = 0;

  // The stages of an arc from `position` to `to`.
  virtual Piece PieceOf(int position, int to, bool recomputed) const = 0;
};

// Every stage may be saved, by each of its options, and every stretch of at most `longest` stages
// without a no_recompute one be a segment.
std::unique_ptr<const PlanArcs> ArcsOfStages(const Chain& chain, int longest);

// Each of `layers` is saved, or recomputed as one segment, which its no_recompute stages cut. Of a
// chain with save_options, each stage of a saved layer is an arc for each of its options.
// Requires: they are 1..L in order without a gap.
std::unique_ptr<const PlanArcs> ArcsOfLayers(const Chain& chain, const std::vector<Piece>& layers);

// What a whole plan costs.
struct PlanCost {
  int64_t peak_bytes = 0;  // as the simulator finds it for FlatSchedule()
  int64_t ticks = 0;       // of the forwards that run again, and of longer backwards
};

// Costs of many plans of one chain. Immutable, thread-safe. Borrows the chain.
class PlanCosts {
 public:
  explicit PlanCosts(const Chain& chain);

  // O(stages). Requires: as FlatSchedule().
  PlanCost Of(const std::vector<Piece>& pieces) const;

 private:
  const Chain& chain_;
  const int exponent_;  // of two: ticks a second
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_FLAT_PLAN_ARCS_H_
