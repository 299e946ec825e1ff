// Requests whose cache keys are equal must be equal in all that an answer depends on. Each input
// makes two requests of few values, so that fields that ran into one another in the encoding would
// meet.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/cache/cache_keys.h"
#include "solver/model/modes.h"
#include "solver/solve/catalog.h"
#include "solver/solve/request_violations.h"
#include "tests/fuzz/targets.h"

namespace stowage {
namespace {

// Reads choices off bytes; 0 after the last.
class Choices {
 public:
  explicit Choices(absl::string_view bytes) : bytes_(bytes) {}

  template <typename Value, size_t kCount>
  Value Of(const Value (&values)[kCount]) {
    return values[Next() % kCount];
  }
  bool Flag() { return Next() % 2 == 1; }
  unsigned char Next() {
    return at_ < bytes_.size() ? static_cast<unsigned char>(bytes_[at_++]) : 0;
  }

 private:
  const absl::string_view bytes_;
  size_t at_ = 0;
};

constexpr int64_t kSizes[] = {0, 1, 2, 3, 8, 1 << 20};
constexpr double kTimes[] = {0, 1, 2, 3, 1e-300, 1e300, 1.0001, -0.0};
constexpr const char* kGroups[] = {"", "", "a", "b"};

Stage ReadStage(Choices& choices) {
  Stage stage;
  stage.forward_seconds = choices.Of(kTimes);
  stage.backward_seconds = choices.Of(kTimes);
  stage.output_bytes = choices.Of(kSizes);
  stage.saved_bytes = stage.output_bytes + choices.Of(kSizes);
  if (choices.Flag()) stage.gradient_bytes = choices.Of(kSizes);
  stage.forward_overhead_bytes = choices.Of(kSizes);
  stage.backward_overhead_bytes = choices.Of(kSizes);
  stage.no_recompute = choices.Flag();
  stage.no_offload = choices.Flag();
  if (choices.Flag()) {
    stage.graph =
        GraphCosts{choices.Of(kTimes), choices.Of(kTimes), stage.output_bytes + choices.Of(kSizes),
                   choices.Of(kSizes), choices.Of(kSizes)};
  }
  stage.fusion_group = choices.Of(kGroups);
  stage.control_flow = choices.Flag();
  stage.input_unread = choices.Flag();
  if (choices.Flag()) stage.replay_seconds = choices.Of(kTimes);
  for (int left = choices.Next() % 4; left > 1; --left) {
    stage.save_options.push_back({.saved_bytes = stage.output_bytes + choices.Of(kSizes),
                                  .backward_seconds = choices.Of(kTimes),
                                  .backward_overhead_bytes = choices.Of(kSizes)});
    if (choices.Flag()) stage.save_options.back().save_overhead_bytes = choices.Of(kSizes);
  }
  if (choices.Flag()) stage.save_overhead_bytes = choices.Of(kSizes);
  return stage;
}

SolveRequest ReadFrom(absl::string_view bytes) {
  constexpr const char* kSolvers[] = {"", "auto", "rotor", "periodic", "pofo", "mixed_mode"};
  constexpr double kPrecisions[] = {0, 0.01};
  constexpr int kCounts[] = {1, 2, 3};
  Choices choices(bytes);
  SolveRequest request;
  request.solver = choices.Of(kSolvers);
  request.options.time_precision = choices.Of(kPrecisions);
  request.options.memory_slots = choices.Of(kSizes);
  request.options.segments = choices.Of(kCounts) - 1;
  request.options.report_rounding_loss = choices.Flag();
  request.platform.memory_bytes = 1 + choices.Of(kSizes);
  if (choices.Flag()) {
    request.platform.offload_bytes_per_second = choices.Of(kTimes);
    request.platform.prefetch_bytes_per_second = choices.Of(kTimes);
    request.platform.transfer_latency_seconds = choices.Of(kTimes);
    request.platform.half_duplex = choices.Flag();
    request.platform.host_memory_bytes = choices.Of(kSizes);
  }
  request.chain.input_bytes = choices.Of(kSizes);
  request.chain.graph_entry_seconds = choices.Of(kTimes);
  const int stages = choices.Of(kCounts);
  for (int i = 0; i < stages; ++i) request.chain.stages.push_back(ReadStage(choices));
  request.chain.loss = ReadStage(choices);
  return request;
}

bool Reads(const SolverInfo& info, SolveOption option) {
  const auto& options = info.description.options;
  return std::find(std::begin(options), std::end(options), option) != std::end(options);
}

std::string TextOf(double time) { return absl::StrFormat("%.17g;", time == 0 ? 0.0 : time); }

// What an answer depends on, as text with names: naive, and sharing nothing with the keys'
// encoding.
std::string TextOf(const Chain& chain, const Platform& platform) {
  std::string text = absl::StrCat("input ", chain.input_bytes, " ", chain.gradient_bytes(0), "\n");
  for (int l = 1; l <= chain.length() + 1; ++l) {
    const Stage& stage = chain.stage(l);
    absl::StrAppend(&text, l > chain.length() ? "loss " : "stage ", "times ",
                    TextOf(stage.forward_seconds), TextOf(stage.backward_seconds), " sizes ",
                    stage.output_bytes, ",", stage.saved_bytes, ",", chain.gradient_bytes(l));
    absl::StrAppend(&text, " overheads ", stage.forward_overhead_bytes, ",",
                    stage.backward_overhead_bytes, stage.no_recompute ? " no_recompute" : "",
                    stage.no_offload ? " no_offload" : "",
                    stage.input_unread ? " input_unread" : "");
    if (stage.replay_seconds.has_value()) {
      absl::StrAppend(&text, " replay ", TextOf(*stage.replay_seconds));
    }
    if (stage.save_overhead_bytes.has_value()) {
      absl::StrAppend(&text, " save overhead ", *stage.save_overhead_bytes);
    }
    for (const SaveOption& option : stage.save_options) {
      absl::StrAppend(&text, " or saves ", option.saved_bytes, ",", option.backward_overhead_bytes,
                      " ", TextOf(option.backward_seconds));
      if (option.save_overhead_bytes.has_value()) {
        absl::StrAppend(&text, " beside ", *option.save_overhead_bytes);
      }
    }
    text += "\n";
  }
  for (const Unit& unit : ChainUnits(chain)) {
    if (unit.first < unit.last) absl::StrAppend(&text, "layer ", unit.first, " ", unit.last, "\n");
    if (!unit.has_graph) continue;
    absl::StrAppend(&text, "graph from ", unit.first, " to ", unit.last, " entry ",
                    TextOf(chain.graph_entry_seconds), "\n");
    for (int l = unit.first; l <= unit.last; ++l) {
      const GraphCosts& graph = *chain.stage(l).graph;
      absl::StrAppend(&text, "times ", TextOf(graph.forward_seconds),
                      TextOf(graph.backward_seconds), " sizes ", graph.saved_bytes, ",",
                      graph.forward_overhead_bytes, ",", graph.backward_overhead_bytes, "\n");
    }
  }
  absl::StrAppend(&text, "memory ", platform.memory_bytes, " host ", platform.host_memory_bytes,
                  " rates ", TextOf(platform.offload_bytes_per_second),
                  TextOf(platform.prefetch_rate()), TextOf(platform.transfer_latency_seconds),
                  platform.half_duplex ? "half" : "full", "\n");
  return text;
}

std::string TextOf(const SolveRequest& request) {
  const SolverInfo& info = *FindSolver(request.solver);
  std::string text = absl::StrCat("solver ", info.description.name, " precision ",
                                  TextOf(request.options.time_precision), " loss ",
                                  request.options.report_rounding_loss, "\n");
  if (Reads(info, SolveOption::kMemorySlots)) {
    absl::StrAppend(&text, "slots ", request.options.memory_slots, "\n");
  }
  if (Reads(info, SolveOption::kSegments)) {
    absl::StrAppend(&text, "segments ", request.options.segments, "\n");
  }
  return text;
}

void RequireEqualWhereKeysAre(const SolveRequest& a, const SolveRequest& b) {
  const Instance rounded_a = Instance::Rounded(a);
  const Instance rounded_b = Instance::Rounded(b);
  const CacheKeys keys_a = CacheKeysOf(a, rounded_a);
  const CacheKeys keys_b = CacheKeysOf(b, rounded_b);
  const bool same_options = TextOf(a) == TextOf(b);
  const bool same = same_options && TextOf(a.chain, a.platform) == TextOf(b.chain, b.platform);
  const bool same_rounded = same_options && TextOf(rounded_a.chain(), rounded_a.platform()) ==
                                                TextOf(rounded_b.chain(), rounded_b.platform());
  const Instance sizes_a = Instance::ExactSizes(a);
  const Instance sizes_b = Instance::ExactSizes(b);
  const bool same_sizes = same_options && TextOf(sizes_a.chain(), sizes_a.platform()) ==
                                              TextOf(sizes_b.chain(), sizes_b.platform());
  Require(!(keys_a.exact == keys_b.exact) || same, "different requests with one exact key");
  Require(!(keys_a.rounded == keys_b.rounded) || same_rounded, "different instances with one key");
  Require(!(keys_a.exact_sizes == keys_b.exact_sizes) || same_sizes,
          "different sizes with one key");
  const bool rounds = a.options.time_precision > 0;
  Require(!same || !rounds || keys_a.rounded == keys_b.rounded, "one instance with two keys");
}

}  // namespace

// The first two bytes say where the second request differs in its bytes, and how.
void FuzzKeys(absl::string_view bytes) {
  if (bytes.size() < 3) return;
  const auto at = static_cast<unsigned char>(bytes[0]);
  const auto how = static_cast<unsigned char>(bytes[1]);
  std::string other(bytes.substr(2));
  const size_t place = at % other.size();
  if (how % 3 == 0) other.erase(place, 1);
  if (how % 3 == 1) other.insert(place, 1, static_cast<char>(how / 3));
  if (how % 3 == 2) other[place] = static_cast<char>(how / 3);
  const SolveRequest a = ReadFrom(bytes.substr(2));
  const SolveRequest b = ReadFrom(other);
  if (!RequestViolations(a).empty() || !RequestViolations(b).empty()) return;
  RequireEqualWhereKeysAre(a, b);
}

std::vector<std::string> KeysSeeds() {
  std::vector<std::string> seeds;
  for (int seed = 0; seed < 40; ++seed) {
    std::string bytes;
    for (int i = 0; i < 70; ++i) bytes += static_cast<char>((seed * 37 + i * (1 + seed % 7)) % 251);
    seeds.push_back(bytes);
  }
  return seeds;
}

}  // namespace stowage
