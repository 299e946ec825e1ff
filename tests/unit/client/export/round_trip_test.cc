// What an export writes costs, as a setting by name, what the export says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/export/local_export.h"
#include "solver/bounds/memory_range.h"
#include "solver/export/named_setting.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/profiles.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

// What stands behind `begin`, up to `end`; empty where `begin` is missing.
std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t at = text.find(begin);
  if (at == std::string::npos) return "";
  const size_t from = at + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

std::string ListOr(const std::string& otherwise, const std::vector<std::string>& items) {
  return items.empty() ? otherwise : absl::StrJoin(items, ",");
}

// "    (2, 3),  # block1 to block2" is "2-3".
std::string Segments(const std::string& text) {
  std::vector<std::string> segments;
  for (const auto line : absl::StrSplit(Between(text, "SEGMENTS = [\n", "]\n"), '\n')) {
    const std::string segment = Between(std::string(line), "(", ")");
    if (!segment.empty()) segments.push_back(absl::StrReplaceAll(segment, {{", ", "-"}}));
  }
  return ListOr("none", segments);
}

std::string Recomputed(const std::string& text) {
  const std::string numbers = Between(text, "RECOMPUTED = frozenset([\n", "])");
  return ListOr("none", absl::StrSplit(absl::StrReplaceAll(numbers, {{"\n", " "}}),
                                       absl::ByAnyChar(", "), absl::SkipEmpty()));
}

// "    2: [],  # block2" is "2".
std::string RemattedLayers(const std::string& text) {
  std::vector<std::string> layers;
  for (const auto line : absl::StrSplit(Between(text, "SAVED = {\n", "}\n"), '\n')) {
    const std::string layer = Between(std::string(line), "    ", ":");
    if (!layer.empty()) layers.push_back(layer);
  }
  return ListOr("none", layers);
}

std::string Arguments(const std::string& text) {
  const std::string method = Between(text, "--recompute-method ", "\n");
  if (method.empty()) return "none";
  return absl::StrCat(method, ":", Between(text, "--recompute-num-layers ", "\n"));
}

std::string Interval(const std::string& text) {
  const std::string interval = Between(text, "\"activation_checkpoint_interval\": ", "\n");
  return interval == "0" ? "none" : absl::StrCat("uniform:", interval);
}

// The setting that an export is, read as its user would.
std::string SettingIn(const Target& target, const std::string& text) {
  if (target.name == "megatron") return absl::StrCat(target.name, ":", Arguments(text));
  if (target.name == "deepspeed") return absl::StrCat(target.name, ":", Interval(text));
  if (target.name == "torch-remat") return absl::StrCat(target.name, ":", RemattedLayers(text));
  if (target.plans == PlanClass::kFlat) return absl::StrCat(target.name, ":", Segments(text));
  return absl::StrCat(target.name, ":", Recomputed(text));
}

struct Case {
  const Target& target;
  const Chain& chain;
  int64_t memory_bytes = 0;
  LayerStages stages = {};
};

// Returns the setting; empty where nothing fits.
std::string ExpectSameCost(const Case& of) {
  const Platform platform = Memory(of.memory_bytes);
  const auto result = MakeExport({&of.target, of.chain, platform, of.stages}, {});
  EXPECT_THAT(result, IsOk());
  if (!result.ok() || !result->exported.has_value()) return "";
  const std::string name = SettingIn(of.target, result->text);
  SCOPED_TRACE(name);
  const auto named = ParseNamedSetting(name);
  EXPECT_THAT(named, IsOk());
  if (!named.ok()) return "";
  EXPECT_THAT(CheckLayers(*named, of.chain, of.stages), IsOk());
  EXPECT_EQ(ForbiddenStage(*named, of.chain, of.stages), std::nullopt);
  const auto simulated = Simulate(of.chain, platform, ScheduleOf(*named, of.chain, of.stages));
  EXPECT_THAT(simulated, IsOk());
  const Prediction& exported = result->exported->prediction;
  EXPECT_EQ(simulated->prediction.makespan_seconds, exported.makespan_seconds);
  EXPECT_EQ(simulated->prediction.peak_memory_bytes, exported.peak_memory_bytes);
  return name;
}

// Of all stages; of those but the first and last; of layers of three stages each.
std::vector<LayerStages> Stages(const Target& target, const Chain& chain) {
  const int length = chain.length();
  std::vector<LayerStages> stages = {{1, length}};
  if (!target.takes_all_stages) stages.push_back({2, length - 1});
  if (target.unit == LayerUnit::kStage) return stages;
  LayerStages threes{1, length};
  for (int l = 3; l < length; l += 3) threes.ends.push_back(l);
  threes.ends.push_back(length);
  stages.push_back(threes);
  return stages;
}

TEST(RoundTrip, OfAnExportIsTheSettingThatItWrites) {
  for (const Target& target : AllTargets()) {
    SCOPED_TRACE(target.name);
    int recomputing = 0;
    for (const char* profile : {"torchvision-resnet101-32-224", "analytic-gpt2small-8-1024",
                                "pipedream-vgg16-128-224", "analytic-llama7b_flash-1-4096"}) {
      SCOPED_TRACE(profile);
      const Chain chain = LoadProfile(profile);
      const int64_t low = FloorOfMemory(chain).bytes;
      const int64_t high = StoreAllPeakBytes(chain);
      for (const int percent : {10, 30, 60, 100}) {
        SCOPED_TRACE(percent);
        const int64_t bytes = low + (high - low) / 100 * percent;
        for (const LayerStages& stages : Stages(target, chain)) {
          const std::string name = ExpectSameCost({target, chain, bytes, stages});
          recomputing += !name.empty() && !absl::EndsWith(name, ":none");
        }
      }
    }
    EXPECT_GT(recomputing, 0);
  }
}

}  // namespace
}  // namespace stowage
