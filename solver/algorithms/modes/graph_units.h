// A chain's units of graph mode (solver/README.md, "Graph mode") as the stages of a plain chain, on
// which rotor's programs run unchanged.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_GRAPH_UNITS_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_GRAPH_UNITS_H_

#include <cstdint>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/chain_units.h"
#include "solver/model/schedule.h"

namespace stowage {

// Positions 0..N lie between the N = L+1 stages of the original chain. Immutable, thread-safe.
class GraphUnits {
 public:
  // Units without a graph mode become stages that need more than `budget_bytes`, so that a table
  // for that budget spends no time on them.
  GraphUnits(const Chain& chain, int64_t budget_bytes);

  // One stage for each unit. Only parts for which IsRun() holds are meaningful.
  const Chain& chain() const { return chain_; }
  // Whether stages i+1..j are whole units that all have a graph mode. O(1).
  bool IsRun(int i, int j) const {
    return before(i) >= 0 && before(j) >= 0 &&
           blocked_[static_cast<size_t>(before(i))] == blocked_[static_cast<size_t>(before(j))];
  }
  // The number of units before a position; -1 at a position inside a unit.
  int before(int position) const { return before_[static_cast<size_t>(position)]; }
  // Turns operations on chain() into operations in graph mode on the original chain.
  Schedule ToChain(Schedule schedule) const;

 private:
  ChainUnits units_;
  Chain chain_;
  std::vector<int> before_;   // by position
  std::vector<int> blocked_;  // [u]: how many of the first u units have no graph mode
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_GRAPH_UNITS_H_
