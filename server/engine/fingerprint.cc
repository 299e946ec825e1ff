#include "server/engine/fingerprint.h"

#include <bit>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "solver/algorithms/catalog.h"
#include "solver/model/instance.h"
#include "xxhash.h"

namespace stowage {
namespace {

// Raised when fields are added below, or mean something else.
constexpr int64_t kFormat = 1;

// How exactly a time is taken. Rounded ones lie on a grid whose points another machine's exp() may
// put a last bit beside ours.
enum class Times { kOnGrid, kToTheBit };

// Collects what is hashed, eight bytes for each number, lowest first.
class Text {
 public:
  explicit Text(size_t stages) { bytes_.reserve(512 + stages * 72); }

  void Add(int64_t number) {
    const auto bits = static_cast<uint64_t>(number);
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<uint8_t>(bits >> shift));
    }
  }
  void Add(double value, Times times) {
    // 0 and -0 are one number.
    const double exact = times == Times::kOnGrid ? static_cast<float>(value) : value;
    Add(std::bit_cast<int64_t>(exact == 0 ? 0.0 : exact));
  }
  void Add(absl::string_view name) {
    Add(static_cast<int64_t>(name.size()));
    bytes_.insert(bytes_.end(), name.begin(), name.end());
  }

  void Add(const Stage& stage, int64_t gradient_bytes, Times times) {
    Add(stage.forward_seconds, times);
    Add(stage.backward_seconds, times);
    Add(stage.output_bytes);
    Add(stage.saved_bytes);
    Add(gradient_bytes);
    Add(stage.forward_overhead_bytes);
    Add(stage.backward_overhead_bytes);
    Add(int64_t{stage.no_recompute} * 2 + int64_t{stage.no_offload});
  }
  void Add(const Chain& chain, Times times) {
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
    const XXH128_hash_t hash = XXH3_128bits(bytes_.data(), bytes_.size());
    return {hash.high64, hash.low64};
  }

 private:
  std::vector<uint8_t> bytes_;
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

// What kind of key this is: two kinds of one question must not meet.
enum class Kind : int64_t { kRounded, kSizes, kExact };

Fingerprint HashOf(Kind kind, const SolveRequest& request, const Chain& chain,
                   const Platform& platform, Times times) {
  Text text(chain.stages.size());
  text.Add(kFormat);
  text.Add(static_cast<int64_t>(kind));
  const SolverInfo& info = *FindSolver(request.solver);
  AddSolver(info, &text);
  AddOptions(request.options, info, &text);
  text.Add(chain, times);
  text.Add(platform, times);
  return text.Hash();
}

}  // namespace

std::string ToHex(const Fingerprint& fingerprint) {
  return absl::StrFormat("%016x%016x", fingerprint.high, fingerprint.low);
}

QuestionKeys KeysOf(const SolveRequest& request) {
  QuestionKeys keys;
  keys.exact = HashOf(Kind::kExact, request, request.chain, request.platform, Times::kToTheBit);
  const bool rounds = request.options.time_precision > 0;
  const Instance sizes = Instance::ExactSizes(request);
  keys.sizes = HashOf(Kind::kSizes, request, sizes.chain(), sizes.platform(),
                      rounds ? Times::kOnGrid : Times::kToTheBit);
  if (!rounds) {
    keys.rounded = keys.sizes;
    return keys;
  }
  const Instance rounded = Instance::Rounded(request);
  keys.rounded =
      HashOf(Kind::kRounded, request, rounded.chain(), rounded.platform(), Times::kOnGrid);
  return keys;
}

}  // namespace stowage
