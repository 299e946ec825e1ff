// Eager and graph mode: which stages run as one in graph mode, and what a chain is once every stage
// has its mode. Source: Mixed Mode, "Formulation"; model.proto, GraphCosts. Thread-safe.
// Requires of all: Violations(chain) is empty.
#ifndef STOWAGE_SOLVER_MODEL_MODES_H_
#define STOWAGE_SOLVER_MODEL_MODES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Stages first..last, which graph mode runs as one: a fusion group, or a stage by itself.
struct Unit {
  int first = 0;
  int last = 0;
  bool has_graph = false;  // it can run in graph mode

  bool operator==(const Unit&) const = default;
};

// In order, from stage 1 to the loss. O(L).
std::vector<Unit> UnitsOf(const Chain& chain);

// Whether any stage can run in graph mode. O(L).
bool HasGraphMode(const Chain& chain);

// By unit: whether it runs in graph mode where memory does not matter, which is then the fastest.
// Of equally fast modes eager. O(L).
std::vector<bool> FastestModes(const Chain& chain);

// One forward and one backward of every stage and the loss, each in the mode that suits it best:
// the time with unlimited memory. O(L).
double ComputeSeconds(const Chain& chain);

// The unit as one stage in graph mode. Requires: unit.has_graph.
Stage GraphStage(const Chain& chain, const Unit& unit);

// A chain as a schedule runs it: a plain one, without graph costs, in which each unit in graph mode
// is one stage. What holds of a plain chain holds of this one: simulator, solvers and agent work on
// it and its numbers become those of the chain again at the end. Only entering graph mode is left
// out of its times. Immutable.
class Execution {
 public:
  // `graph[u]`: whether unit u of UnitsOf(chain) runs in graph mode. Requires: it can.
  static Execution Of(const Chain& chain, const std::vector<bool>& graph);
  // As the schedule's operations say; stages without any are eager. INVALID_ARGUMENT names the
  // first operation that no unit has, or whose mode is not that of an earlier one of its stage.
  static absl::StatusOr<Execution> Of(const Chain& chain, const Schedule& schedule);

  const Chain& chain() const { return chain_; }
  // Of stage e of it, 1..: the chain's stages that it is.
  Unit unit(int e) const { return units_[static_cast<size_t>(e) - 1]; }
  Mode mode(int e) const { return unit(e).has_graph ? Mode::kGraph : Mode::kEager; }
  // Whether graph mode begins with stage e of it.
  bool Enters(int e) const {
    return mode(e) == Mode::kGraph && (e == 1 || mode(e - 1) == Mode::kEager);
  }
  int Entries() const;

  // By value 0..: the chain's number of it.
  const std::vector<int>& numbers() const { return numbers_; }

  // From the one numbering to the other. What names no stage or value of the execution gets a
  // number that it does not have.
  Operation FromChain(const Operation& operation) const;
  Operation ToChain(const Operation& operation) const;
  Schedule FromChain(const Schedule& schedule) const;
  Schedule ToChain(const Schedule& schedule) const;

 private:
  Chain chain_;
  std::vector<Unit> units_;    // by stage of it; has_graph: it runs in graph mode
  std::vector<int> numbers_;   // by value of it: that of the chain
  std::vector<int> executed_;  // by value of the chain: that of it, -1 inside a unit
};

// Whether some operation runs in graph mode, or covers several stages, as only those may.
bool HasGraphOperations(const Schedule& schedule);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_MODES_H_
