// What `stowage export` writes: a table of frameworks, each with the plans that it can express, and
// a function that turns such a plan into the framework's own settings or code. A new target is its
// file and one entry of targets.cc.
#ifndef STOWAGE_SOLVER_EXPORT_TARGETS_H_
#define STOWAGE_SOLVER_EXPORT_TARGETS_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "solver/algorithms/flat/flat_plan.h"
#include "solver/export/layers.h"
#include "solver/model/chain.h"

namespace stowage {

// Which plans of its layers a target can express, and so how the best one is found.
enum class PlanClass {
  kFlat,            // every layer saved, or in a segment of layers that runs again once
  kPerLayer,        // every layer saved, or run again by itself
  kUniform,         // segments of N layers each, the last one shorter, all of which run again
  kUniformOrBlock,  // that, or the first N layers run again, each by itself, and the others saved
};

// What is written: a flat plan of the layers, which are numbered from 1.
struct ExportedPlan {
  const Layers* layers = nullptr;  // not null
  std::vector<Piece> pieces;       // 1..layers->count() in order without a gap
  // Lines about the plan, to be written as comments. Each is printable and has no line end.
  std::vector<std::string> remarks;
  // By layer: whether what it leaves is offloaded (OffloadPlan); empty: nothing is.
  std::vector<bool> offloaded = {};
};

struct Target {
  absl::string_view name;       // "pytorch"
  absl::string_view framework;  // "PyTorch 2.15", the release that the output was checked with
  absl::string_view setting;    // what is written, in a few words
  absl::string_view expresses;
  absl::string_view loses;  // of the full schedule
  absl::string_view tried;  // how the output was checked
  LayerUnit unit = LayerUnit::kStage;
  WayNames ways = WayNames::kNone;  // how it says what a layer keeps that is saved in part
  PlanClass plans = PlanClass::kFlat;
  absl::string_view usual;        // what its users set where they set no more than they must
  bool takes_all_stages = false;  // as its layers: it can leave none out
  bool every_is_first = false;    // its setting of every Nth layer recomputes the first of N
  bool offloads = false;          // whether it can say what is offloaded
  // Errors: INVALID_ARGUMENT for a plan that the target cannot express, with the remedy.
  absl::StatusOr<std::string> (*write)(const ExportedPlan& plan) = nullptr;
};

// Constant, thread-safe.
std::span<const Target> AllTargets();
// The entry of that name, or null. Thread-safe.
const Target* FindTarget(absl::string_view name);
// "pytorch jax ...".
std::string TargetNames();

// Those of ParseLayerStages() for the target's unit.
// Errors: those of ParseLayerStages(); INVALID_ARGUMENT, with the remedy, where the text leaves
// stages out that the target takes. Requires: the chain has a stage.
absl::StatusOr<LayerStages> ParseStages(const Target& target, absl::string_view text,
                                        const Chain& chain);

// "PER_LAYER", as in JSON.
absl::string_view PlanClassName(PlanClass plans);

// One function a target. Each returns text that ends with a newline; errors as Target::write().
absl::StatusOr<std::string> WritePyTorch(const ExportedPlan& plan);
absl::StatusOr<std::string> WriteJax(const ExportedPlan& plan);
absl::StatusOr<std::string> WriteHuggingFace(const ExportedPlan& plan);
absl::StatusOr<std::string> WriteTorchTitan(const ExportedPlan& plan);
absl::StatusOr<std::string> WriteTorchRemat(const ExportedPlan& plan);
absl::StatusOr<std::string> WriteMegatron(const ExportedPlan& plan);
absl::StatusOr<std::string> WriteDeepSpeed(const ExportedPlan& plan);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_EXPORT_TARGETS_H_
