// The layers that a framework's settings count, as runs of a chain's stages.
#ifndef STOWAGE_SOLVER_EXPORT_LAYERS_H_
#define STOWAGE_SOLVER_EXPORT_LAYERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "solver/algorithms/flat/flat_plan.h"
#include "solver/model/chain.h"

namespace stowage {

// Stages first..last, from 1, the loss excluded.
struct StageSpan {
  int first = 0;
  int last = 0;

  bool operator==(const StageSpan&) const = default;
};

// What a framework counts: PyTorch and JAX run the stages that they are given, the others have
// layers of their own.
enum class LayerUnit { kStage, kFusionGroup };

// The stages of "2:25", or all for an empty text.
// Errors: INVALID_ARGUMENT, as in "'0:9' is not a range of the stages 1 to 38, as in 1:38".
// Requires: the chain has a stage.
absl::StatusOr<StageSpan> ParseStageSpan(absl::string_view text, const Chain& chain);

// The layers of a chain, numbered from 1. Immutable, thread-safe.
class Layers {
 public:
  // Of the stages in `range`; with kFusionGroup neighbours of one group are one layer. Stages
  // outside of `range` belong to no layer: every plan saves them.
  // Requires: Violations(chain) is empty; `range` is one of its stages. O(stages).
  Layers(const Chain& chain, const StageSpan& range, LayerUnit unit);

  int count() const { return static_cast<int>(layers_.size()); }
  // Requires: 1 <= layer <= count().
  const StageSpan& stages(int layer) const { return layers_[static_cast<size_t>(layer) - 1]; }
  // On one line: the stage's name, or its number where it has none; of several, the first and last.
  std::string name(int layer) const;

  // The chain whose plans of whole layers are those of these layers: stages that belong to none may
  // not run again, nor may a layer with a stage that may not; fusion groups are layers.
  const Chain& chain() const { return chain_; }

  // A flat plan of chain() as one of the layers. O(stages).
  // Requires: each segment that runs again is of whole layers.
  std::vector<Piece> FromStages(const std::vector<Piece>& pieces) const;
  // A flat plan of the layers, 1..count() in order without a gap, as one of the chain. O(stages).
  std::vector<Piece> ToStages(const std::vector<Piece>& pieces) const;

 private:
  Chain chain_;
  std::vector<StageSpan> layers_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_EXPORT_LAYERS_H_
