#include "solver/algorithms/modes/graph_units.h"

#include <algorithm>
#include <utility>

namespace stowage {

GraphUnits::GraphUnits(const Chain& chain, int64_t budget_bytes)
    : units_(chain), before_{0}, blocked_{0} {
  chain_.input_bytes = chain.input_bytes;
  chain_.input_gradient_bytes = chain.gradient_bytes(0);
  for (const Unit& unit : units_) {
    // Without a graph mode: the right sizes at its borders, and more to save than fits.
    Stage stage;
    if (unit.has_graph) {
      stage = GraphStage(chain, unit);
    } else {
      constexpr int64_t kMaxBytes = kMaxTotalBytes / 8;  // keeps sums of a few from overflowing
      stage.output_bytes = chain.output_bytes(unit.last);
      stage.gradient_bytes = chain.gradient_bytes(unit.last);
      stage.saved_bytes =
          std::max(stage.output_bytes, budget_bytes < kMaxBytes / 4 ? 4 * budget_bytes : kMaxBytes);
    }
    chain_.stages.push_back(std::move(stage));
    // Positions inside the unit stay -1; its end counts the unit.
    before_.insert(before_.end(), static_cast<size_t>(unit.last - unit.first) + 1, -1);
    before_.back() = static_cast<int>(blocked_.size());
    blocked_.push_back(blocked_.back() + (unit.has_graph ? 0 : 1));
  }
  // The last unit contains the loss stage.
  chain_.loss = std::move(chain_.stages.back());
  chain_.stages.pop_back();
}

Schedule GraphUnits::ToChain(Schedule schedule) const {
  for (Operation& operation : schedule.operations) {
    const Unit& unit = units_[static_cast<size_t>(operation.stage) - 1];
    operation.stage = unit.last;
    operation.first_stage = unit.first == unit.last ? 0 : unit.first;
    operation.mode = Mode::kGraph;
  }
  return schedule;
}

}  // namespace stowage
