#include "solver/model/instance.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

// The memory limit is about this many granules, so rounding costs at most 1e-6 of it per size.
constexpr int64_t kGranulesOfMemory = int64_t{1} << 20;

// Rounds sizes and times and records whether any value changed.
class Rounding {
 public:
  Rounding(int64_t granule_bytes, double time_precision)
      : granule_bytes_(granule_bytes), log_step_(std::log1p(time_precision)) {}

  // To the next granule above. No overflow: a size is below 2^62, a granule at most 2^42.
  int64_t Up(int64_t bytes) {
    const int64_t over = bytes % granule_bytes_;
    if (over == 0) return bytes;
    sizes_rounded = true;
    return bytes - over + granule_bytes_;
  }

  // To the next granule below.
  int64_t Down(int64_t bytes) {
    const int64_t over = bytes % granule_bytes_;
    if (over != 0) sizes_rounded = true;
    return bytes - over;
  }

  // To the nearest power of (1 + precision), so that the relative error is at most half of it.
  double Nearest(double value) {
    if (log_step_ == 0 || value == 0) return value;
    const double rounded = std::exp(std::round(std::log(value) / log_step_) * log_step_);
    if (rounded != value) times_rounded = true;
    return rounded;
  }

  bool sizes_rounded = false;
  bool times_rounded = false;

 private:
  int64_t granule_bytes_;
  double log_step_;
};

// A rounded forward that saves needs no less than a rounded one that does not, either.
void RoundSaveOverheads(const Stage& stage, Rounding& rounding, Stage* rounded) {
  const auto round = [&](const std::optional<int64_t>& bytes, int64_t saved_bytes) {
    std::optional<int64_t> up;
    if (bytes.has_value()) {
      up = std::max(rounding.Up(*bytes), rounded->OutputNeedBytes() - saved_bytes);
    }
    return up;
  };
  rounded->save_overhead_bytes = round(stage.save_overhead_bytes, rounded->saved_bytes);
  for (int k = 1; k <= stage.last_option(); ++k) {
    SaveOption& option = rounded->save_options[static_cast<size_t>(k) - 1];
    option.save_overhead_bytes = round(stage.option(k).save_overhead_bytes, option.saved_bytes);
  }
}

// Copies what an eager solver reads. Names are left out: they do not affect the answer.
Stage RoundStage(const Chain& chain, int l, Rounding& rounding) {
  const Stage& stage = chain.stage(l);
  Stage rounded;
  rounded.forward_seconds = rounding.Nearest(stage.forward_seconds);
  rounded.backward_seconds = rounding.Nearest(stage.backward_seconds);
  rounded.output_bytes = rounding.Up(stage.output_bytes);
  rounded.saved_bytes = rounding.Up(stage.saved_bytes);
  rounded.gradient_bytes = rounding.Up(chain.gradient_bytes(l));
  rounded.forward_overhead_bytes = rounding.Up(stage.forward_overhead_bytes);
  rounded.backward_overhead_bytes = rounding.Up(stage.backward_overhead_bytes);
  if (stage.replay_seconds.has_value()) {
    rounded.replay_seconds = rounding.Nearest(*stage.replay_seconds);
  }
  for (const SaveOption& option : stage.save_options) {
    rounded.save_options.push_back(
        {.saved_bytes = rounding.Up(option.saved_bytes),
         .backward_seconds = rounding.Nearest(option.backward_seconds),
         .backward_overhead_bytes = rounding.Up(option.backward_overhead_bytes)});
  }
  RoundSaveOverheads(stage, rounding, &rounded);
  rounded.input_unread = stage.input_unread;
  rounded.no_recompute = stage.no_recompute;
  rounded.no_offload = stage.no_offload;
  return rounded;
}

// Copies the groups, and the rounded graph costs of the units that can run in graph mode. Groups
// are named by their number, because the user's names must not affect the cache key.
void CopyGroupsAndGraphCosts(const Chain& chain, const ChainUnits& units, Rounding& rounding,
                             Chain* out) {
  int groups = 0;
  for (const Unit& unit : units) {
    const std::string group = unit.first < unit.last ? absl::StrCat(++groups) : "";
    for (int l = unit.first; l <= unit.last; ++l) {
      Stage& stage = l > chain.length() ? out->loss : out->stages[static_cast<size_t>(l) - 1];
      stage.fusion_group = group;
      if (!unit.has_graph) continue;
      const GraphCosts& graph = *chain.stage(l).graph;
      stage.graph = {.forward_seconds = rounding.Nearest(graph.forward_seconds),
                     .backward_seconds = rounding.Nearest(graph.backward_seconds),
                     .saved_bytes = rounding.Up(graph.saved_bytes),
                     .forward_overhead_bytes = rounding.Up(graph.forward_overhead_bytes),
                     .backward_overhead_bytes = rounding.Up(graph.backward_overhead_bytes)};
    }
    if (unit.has_graph) out->graph_entry_seconds = rounding.Nearest(chain.graph_entry_seconds);
  }
}

Platform RoundPlatform(const Platform& platform, Rounding& rounding) {
  Platform rounded;
  rounded.memory_bytes = rounding.Down(platform.memory_bytes);
  rounded.offload_bytes_per_second = rounding.Nearest(platform.offload_bytes_per_second);
  rounded.prefetch_bytes_per_second = rounding.Nearest(platform.prefetch_rate());
  rounded.transfer_latency_seconds = rounding.Nearest(platform.transfer_latency_seconds);
  rounded.half_duplex = platform.half_duplex;
  rounded.host_memory_bytes = rounding.Down(platform.host_memory_bytes);
  // 0 means "unlimited", so a limit below one granule must not be rounded down to it.
  if (rounded.host_memory_bytes == 0) rounded.host_memory_bytes = platform.host_memory_bytes;
  return rounded;
}

}  // namespace

Instance Instance::Rounded(const SolveRequest& request) {
  // The limits are rounded down and sizes up: what fits the instance also fits the request.
  const int64_t granule = std::max<int64_t>(1, request.platform.memory_bytes / kGranulesOfMemory);
  return {request, granule, request.options.time_precision};
}

Instance Instance::ExactSizes(const SolveRequest& request) {
  return {request, 1, request.options.time_precision};
}

Instance Instance::Exact(const SolveRequest& request) { return {request, 1, 0}; }

Instance::Instance(const SolveRequest& request, int64_t granule_bytes, double time_precision)
    : units_(request.chain), options_(request.options), granule_bytes_(granule_bytes) {
  Rounding rounding(granule_bytes, time_precision);
  const Chain& chain = request.chain;
  chain_.input_bytes = rounding.Up(chain.input_bytes);
  chain_.input_gradient_bytes = rounding.Up(chain.gradient_bytes(0));
  chain_.stages.reserve(chain.stages.size());
  for (int l = 1; l <= chain.length(); ++l) chain_.stages.push_back(RoundStage(chain, l, rounding));
  chain_.loss = RoundStage(chain, chain.length() + 1, rounding);
  CopyGroupsAndGraphCosts(chain, units_, rounding, &chain_);
  platform_ = RoundPlatform(request.platform, rounding);
  sizes_rounded_ = rounding.sizes_rounded;
  times_rounded_ = rounding.times_rounded;
}

Instance Instance::WithMemorySlots(int64_t memory_slots) const {
  Instance copy = *this;
  copy.options_.memory_slots = memory_slots;
  return copy;
}

Instance Instance::WithChain(Chain chain) const {
  Instance copy = *this;
  copy.chain_ = std::move(chain);
  copy.units_ = ChainUnits(copy.chain_);
  // A chain with fewer stages cannot be cut into so many segments; then every count is tried.
  if (copy.options_.segments > copy.chain_.length()) copy.options_.segments = 0;
  return copy;
}

Instance Instance::WithMemory(int64_t memory_bytes) const {
  Instance copy = *this;
  copy.platform_.memory_bytes = memory_bytes;
  return copy;
}

}  // namespace stowage
