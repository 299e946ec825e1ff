#include "solver/model/chain_units.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "absl/strings/str_cat.h"

namespace stowage {

ChainUnits::ChainUnits(const Chain& chain) {
  units_.reserve(chain.stages.size() + 1);
  const std::string* group = nullptr;  // of the last unit
  for (int l = 1; l <= chain.length() + 1; ++l) {
    const Stage& stage = chain.stage(l);
    const bool can = stage.graph.has_value() && !stage.control_flow;
    if (group != nullptr && !group->empty() && *group == stage.fusion_group) {
      units_.back().last = l;
      units_.back().has_graph = units_.back().has_graph && can;
    } else {
      units_.push_back({l, l, can});
    }
    group = &stage.fusion_group;
  }
  has_graph_ = std::any_of(begin(), end(), [](const Unit& unit) { return unit.has_graph; });
}

Stage GraphStage(const Chain& chain, const Unit& unit) {
  assert(unit.has_graph);
  Stage fused;
  const Stage& last = chain.stage(unit.last);
  fused.name = last.name;
  if (unit.first != unit.last) {
    const std::string& first = chain.stage(unit.first).name;
    if (!first.empty() && !last.name.empty()) fused.name = absl::StrCat(first, "..", last.name);
  }
  // Only the last stage's value and gradient exist outside the unit.
  fused.output_bytes = last.output_bytes;
  fused.gradient_bytes = chain.gradient_bytes(unit.last);
  for (int l = unit.first; l <= unit.last; ++l) {
    const Stage& stage = chain.stage(l);
    const GraphCosts& graph = *stage.graph;
    fused.forward_seconds += graph.forward_seconds;
    fused.backward_seconds += graph.backward_seconds;
    fused.saved_bytes += graph.saved_bytes;
    fused.forward_overhead_bytes =
        std::max(fused.forward_overhead_bytes, graph.forward_overhead_bytes);
    fused.backward_overhead_bytes =
        std::max(fused.backward_overhead_bytes, graph.backward_overhead_bytes);
    // The unit runs as one, so a restriction of any stage holds for all of it.
    fused.no_recompute = fused.no_recompute || stage.no_recompute;
    fused.no_offload = fused.no_offload || stage.no_offload;
  }
  return fused;
}

Stage EagerStage(const Stage& stage) {
  Stage eager = stage;
  eager.graph.reset();
  eager.fusion_group.clear();
  eager.control_flow = false;
  return eager;
}

}  // namespace stowage
