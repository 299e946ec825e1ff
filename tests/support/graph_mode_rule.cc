#include "tests/support/graph_mode_rule.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stowage {
namespace {

constexpr double kEntrySeconds = 20e-6;
constexpr size_t kMaxBlocks = 4;  // in one unit

double BytesPerSecond(absl::string_view profile) {
  const bool a100 = absl::StrContains(profile, "gpt2xl") || absl::StrContains(profile, "llama");
  return a100 ? 1322e9 : 765e9;  // the device in the profiles' provenance: A100 or V100
}

bool IsFusedIntoProducer(absl::string_view name) {
  return absl::StartsWith(name, "bn") || absl::StartsWith(name, "norm") ||
         absl::StartsWith(name, "relu");
}

absl::string_view UpToDot(absl::string_view name) { return name.substr(0, name.rfind('.')); }

// Whether the network's blocks start with a normalization.
bool OpensWithNormalization(absl::string_view profile) {
  return absl::StrContains(profile, "preact") || absl::StrContains(profile, "densenet");
}

bool JoinsTheStageBefore(absl::string_view profile, const Chain& chain, size_t i, size_t size) {
  const absl::string_view name = chain.stages[i].name;
  const absl::string_view before = chain.stages[i - 1].name;
  if (IsFusedIntoProducer(name)) return true;
  if (absl::EndsWith(name, ".mlp")) return UpToDot(name) == UpToDot(before);
  const bool is_block = absl::StrContains(name, '.') && !IsFusedIntoProducer(before) &&
                        (absl::StartsWith(name, "layer") || absl::StartsWith(name, "block") ||
                         absl::StartsWith(name, "dense."));
  return OpensWithNormalization(profile) && is_block && UpToDot(name) == UpToDot(before) &&
         size < kMaxBlocks;
}

// Bytes that fused operators read from registers.
int64_t FusedBytes(const Stage& stage) { return (stage.saved_bytes - stage.output_bytes) / 2; }

// Half of the time at least.
double Less(double seconds, double saved) { return std::max(seconds / 2, seconds - saved); }

// Sets the graph costs of stages first..end-1, from 0, as one unit. The last one has all of them.
void AddCosts(double bytes_per_second, size_t first, size_t end, Chain* chain) {
  GraphCosts group;
  for (size_t i = first; i < end; ++i) {
    Stage& stage = chain->stages[i];
    const double seconds = static_cast<double>(FusedBytes(stage)) / bytes_per_second;
    group.forward_seconds += Less(stage.forward_seconds, seconds);
    group.backward_seconds += Less(stage.backward_seconds, 2 * seconds);
    group.saved_bytes += stage.saved_bytes;
    group.forward_overhead_bytes += stage.forward_overhead_bytes;
    group.backward_overhead_bytes += stage.backward_overhead_bytes;
    if (i + 1 < end) {
      group.backward_overhead_bytes += chain->gradient_bytes(static_cast<int>(i) + 1);
    }
    stage.graph = GraphCosts{};
  }
  chain->stages[end - 1].graph = group;
}

}  // namespace

Chain WithGraphMode(const Chain& chain, const std::string& profile) {
  Chain out = chain;
  out.graph_entry_seconds = kEntrySeconds;
  const double bytes_per_second = BytesPerSecond(profile);
  for (size_t first = 0; first < out.stages.size();) {
    size_t end = first + 1;
    while (end < out.stages.size() && JoinsTheStageBefore(profile, out, end, end - first)) ++end;
    for (size_t i = first; i < end && end - first > 1; ++i) {
      out.stages[i].fusion_group = absl::StrCat("unit", first + 1);
    }
    AddCosts(bytes_per_second, first, end, &out);
    first = end;
  }
  for (Stage& stage : out.stages) {
    stage.control_flow = absl::StrContains(stage.name, "lstm");
  }
  const Stage& loss = chain.loss;
  out.loss.graph = GraphCosts{loss.forward_seconds, loss.backward_seconds, loss.saved_bytes,
                              loss.forward_overhead_bytes, loss.backward_overhead_bytes};
  return out;
}

std::vector<std::string> ModeProfiles() {
  return {"analytic-bertlarge-8-512",       "analytic-gpt2small-8-1024",
          "analytic-gpt2xl_flash-4-1024",   "analytic-llama7b_flash-1-4096",
          "pipedream-densenet121-64-224",   "pipedream-gnmt-32-48",
          "pipedream-resnet50-128-224",     "pipedream-vgg16-128-224",
          "preact-resnet1001-8-224",        "torchvision-densenet161-16-500",
          "torchvision-inceptionv3-16-500", "torchvision-resnet101-16-500"};
}

}  // namespace stowage
