#include "solver/export/targets.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr absl::string_view kEveryStage = "every stage recomputed";
constexpr absl::string_view kEveryLayer = "every layer recomputed";

constexpr Target kTargets[] = {
    {.name = "pytorch",
     .framework = "PyTorch 2.15",
     .setting = "a module of Python: torch.utils.checkpoint around segments of stages",
     .expresses = "stages saved, whole or by operator, or in segments that run again once",
     .loses = "segments within segments, transfers to the host, graph mode; BatchNorm's running "
              "statistics move twice in a segment",
     .tried = "tests train with it, and compare gradients and peak",
     .unit = LayerUnit::kStage,
     .ways = WayNames::kOperators,
     .plans = PlanClass::kFlat,
     .usual = kEveryStage,
     .write = WritePyTorch},
    {.name = "jax",
     .framework = "JAX 0.10",
     .setting = "a module of Python: jax.checkpoint around segments of stages, whose inputs are "
                "saved by checkpoint_name",
     .expresses = "stages saved, whole or by names, or in segments that run again once; with a "
                  "link, what these leave on the host",
     .loses = "segments within segments, the times of copies (XLA's to choose), graph mode",
     .tried = "tests differentiate with it, and compare gradients and saved residuals",
     .unit = LayerUnit::kStage,
     .ways = WayNames::kKept,
     .plans = PlanClass::kFlat,
     .usual = kEveryStage,
     .offloads = true,
     .write = WriteJax},
    {.name = "huggingface",
     .framework = "transformers 5.24",
     .setting = "a function of Python: gradient checkpointing layer by layer",
     .expresses = "layers saved, whole or by operator, or run again one by one",
     .loses = "segments of several layers, transfers to the host, graph mode",
     .tried = "tests train a small GPT-2 with it, and count the forwards of each layer",
     .unit = LayerUnit::kFusionGroup,
     .ways = WayNames::kOperators,
     .plans = PlanClass::kPerLayer,
     .usual = kEveryLayer,
     .every_is_first = true,
     .write = WriteHuggingFace},
    {.name = "torchtitan",
     .framework = "torchtitan 0.3",
     .setting = "a class of Python: the policy of activation checkpointing for Trainer.Config",
     .expresses = "layers saved, whole or by operator, or run again one by one",
     .loses = "segments of several layers, transfers to the host, graph mode",
     .tried = "tests wrap its Llama of debug size with it, and count the forwards of each layer",
     .unit = LayerUnit::kFusionGroup,
     .ways = WayNames::kOperators,
     .plans = PlanClass::kPerLayer,
     .usual = kEveryLayer,
     .write = WriteTorchTitan},
    {.name = "torch-remat",
     .framework = "torch_remat 0.2",
     .setting = "a function of Python: layers that run again but for modules that are saved",
     .expresses = "layers saved, whole or by module, or run again one by one",
     .loses = "segments of several layers, transfers to the host, graph mode; modules that a layer "
              "calls twice cannot be saved",
     .tried = "tests train a small Llama with it, and compare gradients and peak",
     .unit = LayerUnit::kFusionGroup,
     .ways = WayNames::kKept,
     .plans = PlanClass::kPerLayer,
     .usual = kEveryLayer,
     .write = WriteTorchRemat},
    {.name = "megatron",
     .framework = "Megatron-core 0.19",
     .setting = "arguments of its training scripts, fields of TransformerConfig alike",
     .expresses = "segments of N layers that run again (uniform), the first N layers (block), or "
                  "the same modules of every layer",
     .loses = "any other choice of layers or modules, offloading, graph mode",
     .tried =
         "tests run its transformer block on a CPU, release 0.16, whose settings are the same, "
         "and count the forwards of each layer",
     .unit = LayerUnit::kFusionGroup,
     .ways = WayNames::kRerun,
     .plans = PlanClass::kUniformOrBlock,
     .usual = kEveryLayer,
     .write = WriteMegatron},
    {.name = "deepspeed",
     .framework = "DeepSpeed 0.19",
     .setting = "JSON: keys of its configuration, for a PipelineModule",
     .expresses = "segments of N layers that run again",
     .loses = "saved layers beside others, segments of unequal length, segments without parameters "
              "(which it saves), transfers to the host, graph mode",
     .tried = "tests have its configuration read it, and count the forwards of each layer",
     .unit = LayerUnit::kFusionGroup,
     .plans = PlanClass::kUniform,
     .usual = kEveryLayer,
     .takes_all_stages = true,
     .write = WriteDeepSpeed},
};

}  // namespace

std::span<const Target> AllTargets() { return kTargets; }

const Target* FindTarget(absl::string_view name) {
  for (const Target& target : kTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

std::string TargetNames() {
  return absl::StrJoin(kTargets, " ", [](std::string* text, const Target& target) {
    absl::StrAppend(text, target.name);
  });
}

absl::StatusOr<LayerStages> ParseStages(const Target& target, absl::string_view text,
                                        const Chain& chain) {
  ASSIGN_OR_RETURN(LayerStages stages, ParseLayerStages(text, chain, target.unit));
  const bool all = stages.first == 1 && stages.last == chain.length();
  if (!target.takes_all_stages || all) return stages;
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " leaves stages out, and ", target.name,
                   " cuts all of them into segments, from the first one; leave it out, or give 1:",
                   chain.length()));
}

absl::string_view PlanClassName(PlanClass plans) {
  switch (plans) {
    case PlanClass::kFlat:
      return "FLAT";
    case PlanClass::kPerLayer:
      return "PER_LAYER";
    case PlanClass::kUniform:
      return "UNIFORM";
    case PlanClass::kUniformOrBlock:
      break;
  }
  return "UNIFORM_OR_BLOCK";
}

}  // namespace stowage
