// What cheaper replays, inputs that no backward reads and further ways to save a stage bring, one
// after another: makespans of `auto` on the transformers of tests/data, and on a mixture of experts
// whose routing runs once.
//
// A block is a chain of kernels; what they save and take follows the formulas of the profiles'
// provenance, with T tokens, width d, inner width f, X = T d and F = T f elements:
//   products    2 T in out FLOPs: q, k, v (d to 3d), the projection (d to d), d to f, f to d
//   passes      norm: 2 X read and written; activation: 2 F (LLaMA's gate: 2 F and 3 F); dropout
//               and residual: 3 X; rotary embedding: 4 X
//   attention   what is left of the stage's forward
// A pass takes its bytes over the bandwidth, a product its FLOPs over the rate, each plus a launch.
// Every way drops what norms and activations leave. The way "attention" also drops what products
// leave, the way "products" what attention leaves; "all" keeps both. Its backward takes the stage's
// own plus the kernels that it runs again, and has the dropped values as overhead. Masks of dropout
// are kept in every way. A replay leaves out the last product, or BERT's last norm, which reads it.
// Of the backwards only the loss's does not read its input: it needs the log-probabilities.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/solve/answer_request.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/chains.h"
#include "tests/support/profiles.h"

namespace stowage {
namespace {

constexpr double kLink = 12e9;  // B/s
constexpr double kGigabyte = 1e9;

struct Device {
  double flops = 0;  // of products, a second
  double bandwidth = 0;
  double launch_seconds = 0;
  int element_bytes = 0;
};
constexpr Device kV100 = {11.0e12, 765e9, 6e-6, 4};
constexpr Device kA100 = {187e12, 1322e9, 5e-6, 2};

struct Transformer {
  const char* profile;
  Device device;
  int64_t batch, sequence, width, heads, inner;
  bool probabilities;  // saved by attention, with dropout; else the log-sum-exp alone
};
constexpr Transformer kTransformers[] = {
    {"analytic-bertlarge-8-512", kV100, 8, 512, 1024, 16, 4096, true},
    {"analytic-gpt2medium_flash-4-1024", kV100, 4, 1024, 1024, 16, 4096, false},
    {"analytic-gpt2small-8-1024", kV100, 8, 1024, 768, 12, 3072, true},
    {"analytic-gpt2small_flash-8-1024", kV100, 8, 1024, 768, 12, 3072, false},
    {"analytic-gpt2xl-4-1024", kA100, 4, 1024, 1600, 25, 6400, true},
    {"analytic-gpt2xl_flash-4-1024", kA100, 4, 1024, 1600, 25, 6400, false},
    {"analytic-llama7b_flash-1-4096", kA100, 1, 4096, 4096, 32, 11008, false},
};

// What kernels leave for the backward, and take.
struct Kernels {
  int64_t bytes = 0;
  double seconds = 0;

  Kernels operator+(const Kernels& other) const {
    return {bytes + other.bytes, seconds + other.seconds};
  }
};

struct Block {
  Kernels cheap;  // norms and activations
  Kernels products;
  Kernels attention;
  double left_out = 0;  // seconds of a replay
};

class Formulas {
 public:
  explicit Formulas(const Transformer& of)
      : of_(of),
        hidden_(of.batch * of.sequence * of.width * of.device.element_bytes),
        inner_(of.batch * of.sequence * of.inner * of.device.element_bytes) {}

  // nullopt: the stage is no block.
  std::optional<Block> BlockOf(const Stage& stage) const {
    const int64_t d = of_.width;
    const int64_t f = of_.inner;
    const double norm = Pass(2 * hidden_);
    const double residual = Pass(3 * hidden_);
    const double activation = Pass(2 * inner_);
    Block block;
    double rest = Product(f, d) + residual;  // of the forward, beside the block's kernels
    if (absl::EndsWith(stage.name, ".mlp")) {
      block.cheap = {hidden_ + inner_, norm + activation};
      block.products = {inner_, Product(d, f)};
      block.left_out = Product(f, d);
      return block;
    }
    if (absl::EndsWith(stage.name, ".attention")) {
      block.cheap = {hidden_, norm};
      block.products = {3 * hidden_, Product(d, 3 * d)};
      block.left_out = Product(d, d);
      rest = Product(d, d) + residual;
    } else if (!absl::StartsWith(stage.name, "layer")) {
      return std::nullopt;
    } else if (absl::StrContains(of_.profile, "llama")) {
      block.cheap = {2 * hidden_ + 2 * inner_, 2 * norm + activation + Pass(3 * inner_)};
      block.products = {4 * hidden_ + 2 * inner_, Product(d, 3 * d) + Pass(4 * hidden_) +
                                                      Product(d, d) + residual + 2 * Product(d, f)};
      block.left_out = Product(f, d);
    } else {
      block.cheap = {hidden_ + inner_, norm + activation};
      block.products = {4 * hidden_ + inner_,
                        Product(d, 3 * d) + Product(d, d) + residual + Product(d, f)};
      block.left_out = norm;
      rest += norm;
    }
    const double others = block.cheap.seconds + block.products.seconds + rest;
    block.attention = {hidden_ + AttentionBytes(), std::max(0.0, stage.forward_seconds - others)};
    return block;
  }

 private:
  double Product(int64_t in, int64_t out) const {
    const auto tokens = static_cast<double>(of_.batch * of_.sequence);
    return 2 * tokens * static_cast<double>(in) * static_cast<double>(out) / of_.device.flops +
           of_.device.launch_seconds;
  }
  double Pass(int64_t bytes) const {
    return static_cast<double>(bytes) / of_.device.bandwidth + of_.device.launch_seconds;
  }
  // What attention saves between its inputs and its output: the log-sum-exp in fp32, or the
  // probabilities before and after dropout and its mask.
  int64_t AttentionBytes() const {
    const int64_t rows = of_.batch * of_.heads * of_.sequence;
    if (!of_.probabilities) return rows * 4;
    return rows * of_.sequence * (2 * of_.device.element_bytes + 1);
  }

  const Transformer& of_;
  const int64_t hidden_;
  const int64_t inner_;
};

void AddWay(const char* name, const Kernels& dropped, Stage* stage) {
  stage->save_options.push_back(
      {.name = name,
       .saved_bytes = stage->saved_bytes - dropped.bytes,
       .backward_seconds = stage->backward_seconds + dropped.seconds,
       .backward_overhead_bytes = stage->backward_overhead_bytes + dropped.bytes});
}

// The profile as it is, then with each of the three in addition to those before it.
std::vector<Chain> ModelsOf(const Transformer& transformer) {
  std::vector<Chain> models = {LoadProfile(transformer.profile)};
  models.push_back(models.back());
  models.back().loss.input_unread = true;
  models.push_back(models.back());
  const Formulas formulas(transformer);
  for (Stage& stage : models.back().stages) {
    const std::optional<Block> block = formulas.BlockOf(stage);
    if (block.has_value()) stage.replay_seconds = stage.forward_seconds - block->left_out;
  }
  models.push_back(models.back());
  for (Stage& stage : models.back().stages) {
    const std::optional<Block> block = formulas.BlockOf(stage);
    if (!block.has_value()) continue;
    AddWay("all", block->cheap, &stage);
    AddWay("attention", block->cheap + block->products, &stage);
    if (block->attention.bytes > 0) AddWay("products", block->cheap + block->attention, &stage);
  }
  return models;
}

Answer Solve(const Chain& chain, int64_t bytes, double link) {
  Platform platform = Memory(bytes);
  platform.offload_bytes_per_second = link;
  absl::StatusOr<Answer> answer = AnswerRequest({chain, platform, "auto", {}}, {});
  if (answer.ok()) return *std::move(answer);
  std::fprintf(stderr, "%s\n", answer.status().ToString().c_str());
  std::exit(1);
}

// The makespan as a multiple of that of storing everything; "-" where nothing fits.
std::string RatioOf(const Chain& chain, int64_t bytes, double link) {
  const Answer answer = Solve(chain, bytes, link);
  if (answer.outcome == Outcome::kInfeasible) return "-";
  return absl::StrFormat("%.4f", answer.prediction.makespan_seconds / EagerSeconds(chain));
}

int64_t BytesAt(const Chain& chain, int percent) {
  const int64_t low = FloorOfMemory(chain).bytes;
  return low + (StoreAllPeakBytes(chain) - low) / 100 * percent;
}

void PrintTransformers() {
  absl::PrintF(
      "Makespan of auto over that of storing everything: today's model, then in addition inputs "
      "that no\nbackward reads, replays that leave out the last product, and further ways to save "
      "a block.\nBudgets in percent of today's range, the same bytes in each column.\n\n");
  absl::PrintF("%-32s %4s  %-31s  %-31s\n", "", "", "no link", "12 GB/s");
  absl::PrintF("%-32s %4s", "profile", "%");
  for (int i = 0; i < 2; ++i) {
    absl::PrintF(" %7s %7s %7s %7s ", "today", "+unread", "+u_R", "+ways");
  }
  absl::PrintF("\n");
  for (const Transformer& transformer : kTransformers) {
    Progress(transformer.profile);
    const std::vector<Chain> models = ModelsOf(transformer);
    for (const int percent : {5, 10, 20, 40}) {
      const int64_t bytes = BytesAt(models.front(), percent);
      absl::PrintF("%-32s %4d", transformer.profile, percent);
      for (const double link : {0.0, kLink}) {
        for (const Chain& model : models) absl::PrintF(" %7s", RatioOf(model, bytes, link));
        absl::PrintF(" ");
      }
      absl::PrintF("\n");
    }
  }
}

void PrintExperts() {
  const Chain today = LoadProfile("cases/analytic-qwen3moe");
  const Chain unread = LoadProfile("cases/analytic-qwen3moe-unread");
  absl::PrintF(
      "\nMixture of experts (Qwen3-30B-A3B), routing runs once: today, and where dispatch and "
      "combine do\nnot read their input in the backward. Makespans over that of storing "
      "everything.\n\n");
  const auto print = [&](const std::string& what, int64_t bytes, double link) {
    absl::PrintF("%-32s %9s %9s\n", what, RatioOf(today, bytes, link),
                 RatioOf(unread, bytes, link));
  };
  const auto least = [](const Chain& chain) {
    const std::optional<int64_t> bytes =
        Solve(chain, FloorOfMemory(chain).bytes, 0).minimum_memory_bytes;
    if (!bytes.has_value()) return std::string("-");
    return absl::StrFormat("%.2f", static_cast<double>(*bytes) / kGigabyte);
  };
  absl::PrintF("%-32s %9s %9s\n", "", "today", "+unread");
  absl::PrintF("%-32s %9s %9s\n", "least memory, no link, GB", least(today), least(unread));
  for (const int gigabytes : {40, 45, 50, 60}) {
    print(absl::StrFormat("%d GB", gigabytes), int64_t{1'000'000'000} * gigabytes, 0);
  }
  for (const int percent : {5, 20, 50}) {
    print(absl::StrFormat("%d %% of today's range, 12 GB/s", percent), BytesAt(today, percent),
          kLink);
  }
}

int Main(int argc, char** argv) {
  BenchmarkFlags flags("stowage_ways_comparison",
                       "Prints what replays, inputs that no backward reads and further ways to "
                       "save a stage bring, on the transformers of tests/data.");
  if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
  PrintTransformers();
  PrintExperts();
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
