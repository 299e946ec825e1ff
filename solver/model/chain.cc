#include "solver/model/chain.h"

#include "solver/model/modes.h"

namespace stowage {

double Chain::ComputeSeconds() const {
  if (HasGraphMode(*this)) {
    const Execution fastest = Execution::Of(*this, FastestModes(*this));
    return fastest.chain().ComputeSeconds() + fastest.Entries() * graph_entry_seconds;
  }
  double sum = loss.forward_seconds + loss.backward_seconds;
  for (const Stage& stage : stages) sum += stage.forward_seconds + stage.backward_seconds;
  return sum;
}

}  // namespace stowage
