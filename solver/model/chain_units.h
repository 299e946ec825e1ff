// The units of a chain: the stages that graph mode runs as one. Pure, thread-safe.
// Source: solver/README.md, "Graph mode"; Mixed Mode, "Formulation".
#ifndef STOWAGE_SOLVER_MODEL_CHAIN_UNITS_H_
#define STOWAGE_SOLVER_MODEL_CHAIN_UNITS_H_

#include <cstddef>
#include <vector>

#include "solver/model/chain.h"

namespace stowage {

// Stages first..last, which graph mode runs as one stage: a fusion group or a single stage.
struct Unit {
  int first = 0;
  int last = 0;
  bool has_graph = false;  // it can run in graph mode

  bool operator==(const Unit&) const = default;
};

// All units of a chain in order, from stage 1 to the loss, which is one by itself. Of a chain that
// many functions are asked about they are found once and handed on. A request's chain and those of
// its instances (instance.h) have equal units. Immutable.
class ChainUnits {
 public:
  explicit ChainUnits(const Chain& chain);  // O(L)

  // Whether any unit can run in graph mode.
  bool HasGraph() const { return has_graph_; }
  // Whether any unit has several stages.
  bool HasGroups() const { return units_.back().last > static_cast<int>(size()); }

  using value_type = Unit;
  using const_iterator = std::vector<Unit>::const_iterator;
  size_t size() const { return units_.size(); }
  const Unit& operator[](size_t u) const { return units_[u]; }
  const_iterator begin() const { return units_.begin(); }
  const_iterator end() const { return units_.end(); }

 private:
  std::vector<Unit> units_;
  bool has_graph_ = false;
};

// The unit as one stage in graph mode: sums of times and saved bytes, the largest overheads, output
// and gradient of the last stage. Requires: unit.has_graph.
Stage GraphStage(const Chain& chain, const Unit& unit);
// The stage without the fields that only concern graph mode.
Stage EagerStage(const Stage& stage);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_CHAIN_UNITS_H_
