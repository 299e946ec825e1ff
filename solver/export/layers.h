// The layers that a framework's settings count, as runs of a chain's stages.
#ifndef STOWAGE_SOLVER_EXPORT_LAYERS_H_
#define STOWAGE_SOLVER_EXPORT_LAYERS_H_

#include <optional>
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

// By which names of a SaveOption a framework's settings say what a layer keeps.
enum class WayNames {
  kNone,       // they say of whole layers alone whether these are kept
  kOperators,  // `kept`: calls of operators of PyTorch, "aten.mm.default#2"
  kKept,       // `kept`: others
  kRerun,      // `rerun`
};

// Those of the option, each of which is of that kind and needs no quotes in code; empty: it has
// none, or others. O(names).
std::vector<std::string> NamesOf(const SaveOption& option, WayNames names);

// The stages of which layers are made; the others belong to none, and every plan saves them.
struct LayerStages {
  int first = 0;  // as in StageSpan
  int last = 0;
  // The last stage of each layer; empty: each is a stage, or a fusion group, as the framework
  // counts (LayerUnit).
  std::vector<int> ends = {};

  bool operator==(const LayerStages&) const = default;
};

// All stages for an empty text, those of a range ("2:25"), or those that a pattern of names finds
// (name_pattern.h, "layers.{n}"): stages whose names begin the same up to the pattern's end are one
// layer, whatever their fusion groups; with kStage they are a layer each.
// Errors: INVALID_ARGUMENT, as in "'0:9' is neither a range of the stages 1 to 38, as in 1:38, nor
// a pattern of their names, as in layers.{n}"; of patterns, with names that there are, where none
// matches, or where stages of one layer, or layers, are apart.
// Requires: the chain has a stage.
absl::StatusOr<LayerStages> ParseLayerStages(absl::string_view text, const Chain& chain,
                                             LayerUnit unit);

// The layers of a chain, numbered from 1. Immutable, thread-safe.
class Layers {
 public:
  // Requires: Violations(chain) is empty; `stages` are some of its stages. O(stages).
  Layers(const Chain& chain, const LayerStages& stages, LayerUnit unit,
         WayNames names = WayNames::kNone);

  int count() const { return static_cast<int>(layers_.size()); }
  // Requires: 1 <= layer <= count().
  const StageSpan& stages(int layer) const { return layers_[static_cast<size_t>(layer) - 1]; }
  // On one line: the stage's name, or its number where it has none; of several, the first and last.
  std::string name(int layer) const;

  // In how many ways it may be saved in part: a layer of one stage, which may run again, in those
  // of the stage, if all have names of the framework's; others in none.
  int ways(int layer) const { return chain_.stage(stages(layer).first).last_option(); }
  // Requires: 1 <= number <= ways(layer).
  const SaveOption& way(int layer, int number) const {
    return chain_.stage(stages(layer).first).option(number);
  }
  // Those of NamesOf(), modules that are rerun in order.
  std::vector<std::string> way_names(int layer, int number) const;
  // What tells a layer's ways apart, and those of layers that are alike: the modules that it
  // reruns, as in "core_attn+mlp", or else its name, which may be empty.
  std::string WayName(int layer, int number) const;
  // The plan that saves each layer by its first way of that WayName(); nullopt: one has none.
  std::optional<std::vector<Piece>> SavedBy(absl::string_view way) const;
  // Each WayName() that all layers have, but for an empty one, in the order of the first layer's.
  std::vector<std::string> CommonWays() const;

  // The chain whose plans of whole layers are those of these layers: stages that belong to none may
  // not run again, nor may a layer with a stage that may not; fusion groups are layers, and stages
  // are saved in their own way and the layer's ways().
  const Chain& chain() const { return chain_; }

  // A flat plan of chain() as one of the layers. O(stages).
  // Requires: each segment that runs again is of whole layers.
  std::vector<Piece> FromStages(const std::vector<Piece>& pieces) const;
  // A flat plan of the layers, 1..count() in order without a gap, as one of the chain. O(stages).
  std::vector<Piece> ToStages(const std::vector<Piece>& pieces) const;

 private:
  void MarkLayer(const Chain& chain, int layer);

  WayNames names_;
  Chain chain_;
  std::vector<StageSpan> layers_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_EXPORT_LAYERS_H_
