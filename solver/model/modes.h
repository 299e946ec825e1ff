// Eager and graph mode: the fastest choice for every unit, and the plain chain that results once
// every unit has a mode. Pure, thread-safe. Source: solver/README.md, "Graph mode"; Mixed Mode,
// "Formulation". Every function requires: Violations(chain) is empty, and `units` are the chain's.
#ifndef STOWAGE_SOLVER_MODEL_MODES_H_
#define STOWAGE_SOLVER_MODEL_MODES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "solver/model/chain.h"
#include "solver/model/chain_units.h"
#include "solver/model/schedule.h"

namespace stowage {

// The fastest choice of modes with unlimited memory: by unit, whether it runs in graph mode. Eager
// on ties. A dynamic program over units with the last unit's mode as state. O(L).
std::vector<bool> FastestModes(const Chain& chain, const ChainUnits& units);

// The time of one forward and one backward of every stage and the loss in FastestModes(): the
// makespan with unlimited memory, in seconds. O(L).
double ComputeSeconds(const Chain& chain, const ChainUnits& units);
double ComputeSeconds(const Chain& chain);  // finds the units itself
// The same with every stage in eager mode, in which solvers that mix no modes run all of them.
double EagerSeconds(const Chain& chain);

// The plain chain that a schedule executes: without graph costs, each unit in graph mode a single
// stage. Simulator, solvers and agent work on this chain and convert stage numbers at the end. "Of
// the execution" below means in this chain's numbering. Its times exclude the cost of entering
// graph mode. Immutable.
class Execution {
 public:
  // `graph[u]`: unit u runs in graph mode. Requires: has_graph of that unit.
  static Execution Of(const Chain& chain, const ChainUnits& units, const std::vector<bool>& graph);
  // Takes the modes from the schedule's operations; stages without operations are eager.
  // Errors: INVALID_ARGUMENT names the first operation that matches no unit, or whose mode differs
  // from that of an earlier operation of its stage.
  static absl::StatusOr<Execution> Of(const Chain& chain, const ChainUnits& units,
                                      const Schedule& schedule);

  const Chain& chain() const { return chain_; }
  // The chain's stages that stage e of the execution covers, e in 1..L+1.
  Unit unit(int e) const { return units_[static_cast<size_t>(e) - 1]; }
  Mode mode(int e) const { return unit(e).has_graph ? Mode::kGraph : Mode::kEager; }
  // Whether a run of stages in graph mode begins with stage e of the execution.
  bool Enters(int e) const {
    return mode(e) == Mode::kGraph && (e == 1 || mode(e - 1) == Mode::kEager);
  }
  int Entries() const;  // the number of these runs
  // By unit of the chain: whether it runs in graph mode.
  const std::vector<bool>& graph() const { return graph_; }

  // The chain's number by the execution's number, of stages and values, 0 included.
  const std::vector<int>& numbers() const { return numbers_; }

  // Convert from the chain's numbering to the execution's (FromChain) and back (ToChain). An
  // operation of a stage or value that the execution does not have gets stage -1, which is invalid.
  Operation FromChain(const Operation& operation) const;
  Operation ToChain(const Operation& operation) const;
  Schedule FromChain(const Schedule& schedule) const;
  Schedule ToChain(const Schedule& schedule) const;

 private:
  Chain chain_;
  std::vector<Unit> units_;    // by stage of the execution; has_graph: it runs in graph mode
  std::vector<bool> graph_;    // by unit of the chain
  std::vector<int> numbers_;   // the chain's number by the execution's
  std::vector<int> executed_;  // the execution's number by the chain's; -1 inside a unit
};

// Whether any operation runs in graph mode or covers several stages. If not, the chain itself is
// what the schedule executes. O(operations).
bool HasGraphOperations(const Schedule& schedule);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_MODES_H_
