#include "server/cache/cache_keys.h"

#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <new>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "solver/model/chain_units.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

// Raised when the bytes that are hashed change, or mean something else: older keys are then misses.
constexpr int64_t kFormat = 4;

// How times count.
enum class Times {
  kOnGrid,  // but for the last bits, in which machines' exp() may differ
  kToTheBit,
  kLeftOut,  // sizes alone
};

// Collects the numbers that are hashed, eight bytes each, least significant first. The encoding is
// canonical and framed: every text and every list is preceded by its length, and what is optional
// by a flag, so that different requests never have one encoding.
//
// The fields of every struct are named by a structured binding, so that a new field does not
// compile until somebody has decided whether it is part of the key.
class KeyBuilder {
 public:
  KeyBuilder(size_t stages, Times times) : times_(times) { numbers_.reserve(64 + stages * 9); }

  void AddNumber(int64_t number) {
    static_assert(std::endian::native == std::endian::little);
    numbers_.push_back(number);
  }
  void AddFlag(bool value) { AddNumber(int64_t{value}); }
  void AddToTheBit(double value) {
    AddNumber(std::bit_cast<int64_t>(value == 0 ? 0.0 : value));  // 0 and -0 are one number
  }
  void AddTime(double value) {
    if (times_ == Times::kToTheBit) AddToTheBit(value);
    if (times_ == Times::kOnGrid) AddOnGrid(value);
  }
  // By exponent and fraction: points of the grid are at least kMinTimePrecision apart, so that
  // their fractions differ in single precision, whatever the exponent.
  void AddOnGrid(double value) {
    int exponent = 0;
    auto fraction = static_cast<float>(std::frexp(value, &exponent));
    if (fraction == 1) {  // rounded up, from just below it
      fraction = 0.5;
      ++exponent;
    }
    AddNumber(int64_t{exponent});
    AddToTheBit(fraction);
  }
  void AddText(absl::string_view text) {
    AddNumber(static_cast<int64_t>(text.size()));
    for (size_t at = 0; at < text.size(); at += sizeof(int64_t)) {
      int64_t eight = 0;
      std::memcpy(&eight, text.data() + at, std::min(sizeof(eight), text.size() - at));
      AddNumber(eight);
    }
  }

  // One bit for each way to save that has save_overhead_bytes, the stage's own first.
  static int64_t SaveOverheadFlags(const Stage& stage) {
    int64_t flags = stage.save_overhead_bytes.has_value() ? 1 : 0;
    for (int k = 1; k <= stage.last_option(); ++k) {
      if (stage.option(k).save_overhead_bytes.has_value()) flags |= int64_t{1} << k;
    }
    return flags;
  }
  // `gradient_bytes`: Chain::gradient_bytes(), which fills in what is unset.
  void AddStage(const Stage& stage, int64_t gradient_bytes) {
    const auto& [name, forward_seconds, backward_seconds, output_bytes, saved_bytes, gradient,
                 forward_overhead_bytes, backward_overhead_bytes, no_recompute, no_offload, graph,
                 fusion_group, control_flow, replay_seconds, input_unread, save_options,
                 save_overhead_bytes] = stage;
    // Names are no part of a key; groups and control flow are in AddUnits().
    (void)name, (void)gradient, (void)fusion_group, (void)control_flow;
    AddTime(forward_seconds);
    AddTime(backward_seconds);
    AddNumber(output_bytes);
    AddNumber(saved_bytes);
    AddNumber(gradient_bytes);
    AddNumber(forward_overhead_bytes);
    AddNumber(backward_overhead_bytes);
    const bool replays = replay_seconds.has_value();
    AddNumber(SaveOverheadFlags(stage) * 256 + static_cast<int64_t>(save_options.size()) * 16 +
              int64_t{input_unread} * 8 + int64_t{replays} * 4 + int64_t{no_recompute} * 2 +
              int64_t{no_offload});
    if (replays) AddTime(*replay_seconds);
    if (save_overhead_bytes.has_value()) AddNumber(*save_overhead_bytes);
    for (const SaveOption& option : save_options) AddSaveOption(option);
    AddGraphCosts(graph);
  }
  void AddSaveOption(const SaveOption& option) {
    const auto& [name, saved_bytes, backward_seconds, backward_overhead_bytes, save_overhead_bytes,
                 kept, rerun] = option;
    (void)name;
    (void)kept;  // names, as is `rerun`
    (void)rerun;
    AddNumber(saved_bytes);
    AddTime(backward_seconds);
    AddNumber(backward_overhead_bytes);
    if (save_overhead_bytes.has_value()) AddNumber(*save_overhead_bytes);
  }
  void AddGraphCosts(const std::optional<GraphCosts>& graph) {
    AddFlag(graph.has_value());
    if (!graph.has_value()) return;
    const auto& [forward_seconds, backward_seconds, saved_bytes, forward_overhead_bytes,
                 backward_overhead_bytes] = *graph;
    AddTime(forward_seconds);
    AddTime(backward_seconds);
    AddNumber(saved_bytes);
    AddNumber(forward_overhead_bytes);
    AddNumber(backward_overhead_bytes);
  }
  // What can run in graph mode, and as one. Costs of stages that cannot do not count.
  void AddUnits(const ChainUnits& units) {
    AddNumber(static_cast<int64_t>(units.size()));
    for (const auto& [first, last, has_graph] : units) {
      (void)first;  // one after the last of the unit before
      AddNumber(int64_t{last});
      AddFlag(has_graph);
    }
  }
  void AddChain(const Chain& chain, const ChainUnits& units) {
    const auto& [name, input_bytes, input_gradient_bytes, stages, loss, graph_entry_seconds] =
        chain;
    (void)name, (void)input_gradient_bytes;
    const bool has_units = units.HasGraph() || units.HasGroups();  // groups are layers, too
    AddNumber(units.HasGraph() ? int64_t{1} : int64_t{has_units} * 2);
    if (units.HasGraph()) AddTime(graph_entry_seconds);
    if (has_units) AddUnits(units);
    AddNumber(static_cast<int64_t>(stages.size()));
    AddNumber(input_bytes);
    AddNumber(chain.gradient_bytes(0));
    for (int l = 1; l <= chain.length(); ++l) {
      AddStage(stages[static_cast<size_t>(l) - 1], chain.gradient_bytes(l));
    }
    AddStage(loss, 0);
  }
  void AddPlatform(const Platform& platform) {
    const auto& [name, memory_bytes, offload_bytes_per_second, prefetch_bytes_per_second,
                 transfer_latency_seconds, half_duplex, host_memory_bytes] = platform;
    (void)name, (void)prefetch_bytes_per_second;
    AddNumber(memory_bytes);
    AddTime(offload_bytes_per_second);
    AddTime(platform.prefetch_rate());
    AddTime(transfer_latency_seconds);
    AddFlag(half_duplex);
    AddNumber(host_memory_bytes);
  }

  void AddFingerprint(const Fingerprint& fingerprint) {
    for (size_t at = 0; at < fingerprint.bytes.size(); at += sizeof(int64_t)) {
      int64_t eight = 0;
      std::memcpy(&eight, fingerprint.bytes.data() + at, sizeof(eight));
      AddNumber(eight);
    }
  }

  Fingerprint Hash() const {
    return FingerprintOf(absl::string_view(reinterpret_cast<const char*>(numbers_.data()),
                                           numbers_.size() * sizeof(int64_t)));
  }

 private:
  const Times times_;
  std::vector<int64_t> numbers_;
};

// Adds the options that change the answers of a solver.
class OptionVisitor {
 public:
  OptionVisitor(const SolverInfo& info, KeyBuilder& key) : info_(info), key_(key) {}

  void ReadBySolver(SolveOption option, int64_t value) {
    if (!absl::c_linear_search(info_.description.options, option)) return;
    key_.AddNumber(static_cast<int64_t>(option));
    key_.AddNumber(value);
  }
  void ReadByAll(double value) { key_.AddToTheBit(value); }
  void ReadByAll(bool value) { key_.AddFlag(value); }
  template <typename Value>
  void NoPartOfTheAnswer(const Value& /*value*/) {}

 private:
  const SolverInfo& info_;
  KeyBuilder& key_;
};

void AddSolver(const SolverInfo& info, KeyBuilder& key) {
  key.AddText(info.description.name);
  key.AddNumber(int64_t{info.description.version});
  if (absl::string_view(info.description.name) != "auto") return;
  // `auto` answers with what the others find that it asks.
  const auto asked = [](const SolverInfo& other) { return other.asked_by_auto; };
  key.AddNumber(int64_t{absl::c_count_if(AllSolvers(), asked)});
  for (const SolverInfo& other : AllSolvers()) {
    if (asked(other)) key.AddNumber(int64_t{other.description.version});
  }
}

// Hashes what may change the answer: format and kind of the key, solver and version, the options
// that this solver reads, chain and platform.
Fingerprint KeyOf(const SolverInfo& info, const SolveOptions& options, const Chain& chain,
                  const ChainUnits& units, const Platform& platform, Times times) {
  KeyBuilder key(chain.stages.size(), times);
  key.AddNumber(kFormat);
  key.AddNumber(static_cast<int64_t>(times));
  AddSolver(info, key);
  VisitSolveOptions(options, OptionVisitor(info, key));
  key.AddChain(chain, units);
  key.AddPlatform(platform);
  return key.Hash();
}

// The key of the request's exact sizes, and of its times as they are in `rounded`.
Fingerprint ExactSizesKey(const Fingerprint& rounded, const SolveRequest& request,
                          const ChainUnits& units) {
  KeyBuilder key(request.chain.stages.size(), Times::kLeftOut);
  key.AddNumber(kFormat);
  key.AddNumber(static_cast<int64_t>(Times::kLeftOut));
  key.AddFingerprint(rounded);
  key.AddChain(request.chain, units);
  key.AddPlatform(request.platform);
  return key.Hash();
}

}  // namespace

std::string ToHex(const Fingerprint& fingerprint) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(fingerprint.bytes.data()), fingerprint.bytes.size()));
}

// OpenSSL fails here only where it runs out of memory.
Fingerprint FingerprintOf(absl::string_view bytes) {
  static const EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  Fingerprint fingerprint;
  if (EVP_Digest(bytes.data(), bytes.size(), fingerprint.bytes.data(), nullptr, sha256, nullptr) !=
      1) {
    throw std::bad_alloc();
  }
  return fingerprint;
}

std::optional<Fingerprint> FingerprintFromHex(absl::string_view text) {
  Fingerprint fingerprint;
  if (text.size() != 2 * fingerprint.bytes.size() || !absl::c_all_of(text, absl::ascii_isxdigit)) {
    return std::nullopt;
  }
  const std::string bytes = absl::HexStringToBytes(text);
  std::copy(bytes.begin(), bytes.end(), fingerprint.bytes.begin());
  return fingerprint;
}

CacheKeys CacheKeysOf(const SolveRequest& request, const Instance& rounded) {
  const SolverInfo& info = *FindSolver(request.solver);
  const SolveOptions& options = request.options;
  const ChainUnits& units = rounded.units();
  CacheKeys keys;
  keys.exact = KeyOf(info, options, request.chain, units, request.platform, Times::kToTheBit);
  // Without rounding of times nothing is shared between requests that differ.
  if (options.time_precision == 0) {
    keys.rounded = keys.exact_sizes = keys.exact;
    return keys;
  }
  keys.rounded = KeyOf(info, options, rounded.chain(), units, rounded.platform(), Times::kOnGrid);
  keys.exact_sizes = ExactSizesKey(keys.rounded, request, units);
  return keys;
}

}  // namespace stowage
