// A chain's units of graph mode as the stages of a plain chain, on which rotor's programs run.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_GRAPH_UNITS_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_GRAPH_UNITS_H_

#include <cstdint>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/modes.h"
#include "solver/model/schedule.h"

namespace stowage {

// Positions 0..N lie between the N = L+1 stages of the chain. Immutable, thread-safe.
class GraphUnits {
 public:
  // What has no graph mode takes more than `budget_bytes`, so that no time is spent on it.
  GraphUnits(const Chain& chain, int64_t budget_bytes);

  // One stage a unit; those without graph mode are there but mean nothing.
  const Chain& chain() const { return chain_; }
  // Whether stages i+1..j are whole units, all of which have a graph mode.
  bool Run(int i, int j) const {
    return before(i) >= 0 && before(j) >= 0 &&
           blocked_[static_cast<size_t>(before(i))] == blocked_[static_cast<size_t>(before(j))];
  }
  // The number of units before a position; -1 inside a unit.
  int before(int position) const { return before_[static_cast<size_t>(position)]; }
  // From operations on chain() to operations in graph mode on the chain itself.
  Schedule ToChain(Schedule schedule) const;

 private:
  std::vector<Unit> units_;
  Chain chain_;
  std::vector<int> before_;   // by position
  std::vector<int> blocked_;  // by number of units: those without graph mode among them
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_GRAPH_UNITS_H_
