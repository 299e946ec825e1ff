#include "server/cache/cache_keys.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "solver/model/instance.h"
#include "solver/model/modes.h"
#include "solver/solve/catalog.h"
#include "xxhash.h"

namespace stowage {
namespace {

// Raised when fields are added below, or mean something else.
constexpr int64_t kFormat = 2;

// How exactly a time is taken. Rounded ones lie on a grid whose points another machine's exp() may
// put a last bit beside ours.
enum class Times { kOnGrid, kToTheBit };

// Collects what is hashed, eight bytes for each number, lowest first.
class Text {
 public:
  explicit Text(size_t stages) { numbers_.reserve(64 + stages * 9); }

  void Add(int64_t number) {
    static_assert(std::endian::native == std::endian::little);
    numbers_.push_back(number);
  }
  void Add(double value, Times times) {
    // 0 and -0 are one number.
    const double exact = times == Times::kOnGrid ? static_cast<float>(value) : value;
    Add(std::bit_cast<int64_t>(exact == 0 ? 0.0 : exact));
  }
  void Add(absl::string_view name) {
    Add(static_cast<int64_t>(name.size()));
    for (size_t at = 0; at < name.size(); at += sizeof(int64_t)) {
      int64_t eight = 0;
      std::memcpy(&eight, name.data() + at, std::min(sizeof(eight), name.size() - at));
      Add(eight);
    }
  }

  void Add(const Stage& stage, int64_t gradient_bytes, Times times) {
    Add(stage.forward_seconds, times);
    Add(stage.backward_seconds, times);
    AddSizes(stage, gradient_bytes);
    Add(int64_t{stage.no_recompute} * 2 + int64_t{stage.no_offload});
    if (!stage.graph.has_value()) return;
    Add(stage.graph->forward_seconds, times);
    Add(stage.graph->backward_seconds, times);
  }
  void AddSizes(const Stage& stage, int64_t gradient_bytes) {
    Add(stage.output_bytes);
    Add(stage.saved_bytes);
    Add(gradient_bytes);
    Add(stage.forward_overhead_bytes);
    Add(stage.backward_overhead_bytes);
    Add(int64_t{stage.graph.has_value()});
    if (!stage.graph.has_value()) return;
    Add(stage.graph->saved_bytes);
    Add(stage.graph->forward_overhead_bytes);
    Add(stage.graph->backward_overhead_bytes);
  }
  // What can run in graph mode, and as one. What cannot is as good as without costs.
  void AddUnits(const Chain& chain, Times times) {
    Add(chain.graph_entry_seconds, times);
    const std::vector<Unit> units = UnitsOf(chain);
    Add(static_cast<int64_t>(units.size()));
    for (const Unit& unit : units) {
      Add(int64_t{unit.has_graph});
      Add(int64_t{unit.last});
    }
  }
  void Add(const Chain& chain, Times times) {
    if (HasGraphMode(chain)) AddUnits(chain, times);
    Add(int64_t{chain.length()});
    Add(chain.input_bytes);
    Add(chain.gradient_bytes(0));
    for (int l = 1; l <= chain.length() + 1; ++l)
      Add(chain.stage(l), chain.gradient_bytes(l), times);
  }
  void Add(const Platform& platform, Times times) {
    Add(platform.memory_bytes);
    Add(platform.offload_bytes_per_second, times);
    Add(platform.prefetch_rate(), times);
    Add(platform.transfer_latency_seconds, times);
    Add(int64_t{platform.half_duplex});
    Add(platform.host_memory_bytes);
  }

  Fingerprint Hash() const {
    const XXH128_hash_t hash = XXH3_128bits(numbers_.data(), numbers_.size() * sizeof(int64_t));
    return {hash.high64, hash.low64};
  }

 private:
  std::vector<int64_t> numbers_;
};

// `auto` answers with what others find.
void AddSolver(const SolverInfo& info, Text* text) {
  text->Add(info.description.name);
  text->Add(int64_t{info.description.version});
  if (absl::string_view(info.description.name) != "auto") return;
  for (const SolverInfo& other : AllSolvers()) text->Add(int64_t{other.description.version});
}

void AddOptions(const SolveOptions& options, const SolverInfo& info, Text* text) {
  for (const absl::string_view name : info.description.options) {
    text->Add(name);
    if (name == "memory_slots") text->Add(options.memory_slots);
    if (name == "segments") text->Add(int64_t{options.segments});
  }
  text->Add(int64_t{options.report_rounding_loss});
  text->Add(options.time_precision, Times::kToTheBit);
}

Fingerprint HashOf(const SolveRequest& request, const Chain& chain, const Platform& platform,
                   Times times) {
  Text text(chain.stages.size());
  text.Add(kFormat);
  text.Add(static_cast<int64_t>(times));
  const SolverInfo& info = *FindSolver(request.solver);
  AddSolver(info, &text);
  AddOptions(request.options, info, &text);
  text.Add(chain, times);
  text.Add(platform, times);
  return text.Hash();
}

// The times are in `rounded`, all else is a matter of sizes.
Fingerprint WithSizes(const Fingerprint& rounded, const SolveRequest& request) {
  const Chain& chain = request.chain;
  Text text(chain.stages.size());
  text.Add(static_cast<int64_t>(rounded.high));
  text.Add(static_cast<int64_t>(rounded.low));
  text.Add(chain.input_bytes);
  text.Add(chain.gradient_bytes(0));
  for (int l = 1; l <= chain.length() + 1; ++l) {
    text.AddSizes(chain.stage(l), chain.gradient_bytes(l));
  }
  text.Add(request.platform.memory_bytes);
  text.Add(request.platform.host_memory_bytes);
  return text.Hash();
}

}  // namespace

std::string ToHex(const Fingerprint& fingerprint) {
  return absl::StrFormat("%016x%016x", fingerprint.high, fingerprint.low);
}

QuestionKeys KeysOf(const SolveRequest& request) {
  QuestionKeys keys;
  keys.exact = HashOf(request, request.chain, request.platform, Times::kToTheBit);
  if (request.options.time_precision == 0) {
    keys.rounded = keys.sizes = keys.exact;
    return keys;
  }
  const Instance rounded = Instance::Rounded(request);
  keys.rounded = HashOf(request, rounded.chain(), rounded.platform(), Times::kOnGrid);
  keys.sizes = WithSizes(keys.rounded, request);
  return keys;
}

}  // namespace stowage
