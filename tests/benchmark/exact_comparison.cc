// How far `auto` is from the fastest schedule there is, on small random chains with a link: the
// exhaustive search over complete programs (tests/support/program_search.h) is the judge. Slow
// links, limits on host memory and budgets near the least memory are frequent. Also how far the
// lower bound is below the optimum, and whether it is ever above.
//   cases     that the search answered (it gives up on some)
//   slower    cases in which auto is slower than the optimum; then its mean excess over all cases
//   missed    cases in which auto finds nothing though a schedule exists
//   bound     by how much the optimum exceeds the lower bound on average
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "absl/strings/str_format.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/bounds/recurrence_bound.h"
#include "solver/solve/answer_request.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/chains.h"
#include "tests/support/program_search.h"

namespace stowage {
namespace {

struct Options {
  int cases = 3000;
  int seed = 1;
  int stages = 5;
  int64_t nodes = 100'000;
  std::string solver = "auto";
  double report = 0.05;
};
Options options;  // set by Main()

class Draw {
 public:
  explicit Draw(int seed) : random_(static_cast<uint32_t>(seed)) {}

  int64_t Between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  bool OneIn(int64_t count) { return Between(1, count) == 1; }

  Stage NextStage(bool saves_much) {
    Stage stage;
    stage.forward_seconds = static_cast<double>(Between(0, 5));
    stage.backward_seconds = static_cast<double>(Between(0, 5));
    stage.output_bytes = Between(0, 6);
    stage.saved_bytes = stage.output_bytes + Between(0, saves_much ? 20 : 6);
    if (OneIn(2)) stage.gradient_bytes = Between(0, 6);
    if (OneIn(3)) stage.forward_overhead_bytes = Between(0, 9);
    if (OneIn(3)) stage.backward_overhead_bytes = Between(0, 9);
    stage.no_recompute = OneIn(8);
    stage.no_offload = OneIn(8);
    return stage;
  }

  Chain NextChain(int max_stages) {
    Chain chain;
    const bool saves_much = OneIn(2);
    chain.input_bytes = Between(0, 6);
    if (OneIn(2)) chain.input_gradient_bytes = Between(0, 6);
    const int64_t stages = Between(2, max_stages);
    for (int64_t l = 0; l < stages; ++l) chain.stages.push_back(NextStage(saves_much));
    if (OneIn(2)) chain.loss = NextStage(saves_much);
    return chain;
  }

 private:
  std::mt19937_64 random_;
};

struct Case {
  Chain chain;
  Platform platform;
  std::string kind;
};

Case CaseOf(int seed) {
  Draw draw(seed);
  Case result;
  result.chain = draw.NextChain(options.stages);
  const int64_t low = FloorOfMemory(result.chain).bytes;
  const int64_t high = StoreAllPeakBytes(result.chain);
  Platform& platform = result.platform;
  platform.memory_bytes = draw.Between(low, std::max(low, high - 1));
  platform.offload_bytes_per_second = static_cast<double>(1 << draw.Between(0, 5));
  if (draw.OneIn(3)) {
    platform.prefetch_bytes_per_second = static_cast<double>(1 << draw.Between(0, 5));
  }
  if (draw.OneIn(4)) platform.transfer_latency_seconds = draw.OneIn(2) ? 0.25 : 1;
  platform.half_duplex = draw.OneIn(2);
  switch (draw.Between(0, 3)) {
    case 0:
      result.kind = "any";
      break;
    case 1:
      result.kind = "slow link";
      platform.offload_bytes_per_second = draw.OneIn(2) ? 0.25 : 0.5;
      break;
    case 2:
      result.kind = "host limit";
      platform.host_memory_bytes = draw.Between(1, 12);
      break;
    default:
      result.kind = "least memory";
      platform.memory_bytes = low + draw.Between(0, std::max<int64_t>(0, (high - low) / 25));
  }
  return result;
}

struct Sums {
  int cases = 0;
  int slower = 0;
  int missed = 0;
  int above = 0;
  double excess = 0;
  double worst = 0;
  double bound = 0;
};

void Add(int seed, const Case& one, const ProgramResult& fastest, Sums* sums) {
  const auto answer =
      AnswerRequest({one.chain, one.platform, options.solver, {.time_precision = 0}}, {});
  ++sums->cases;
  constexpr double kNoise = 1e-9;
  const double bound = std::max(LowerBoundSeconds(one.chain, one.platform),
                                RecurrenceBoundSeconds(one.chain, one.platform));
  if (bound > fastest.seconds * (1 + kNoise)) ++sums->above;
  if (bound > 0) sums->bound += std::max(0.0, fastest.seconds / bound - 1);
  if (!answer.ok() || answer->outcome == Outcome::kInfeasible) {
    ++sums->missed;
    return;
  }
  if (fastest.seconds == 0) return;
  const double excess = answer->prediction.makespan_seconds / fastest.seconds - 1;
  if (excess < kNoise) return;
  ++sums->slower;
  sums->excess += excess;
  sums->worst = std::max(sums->worst, excess);
  if (excess >= options.report) {
    absl::PrintF("seed %d, %s: %g s, the optimum is %g\n", seed, one.kind,
                 answer->prediction.makespan_seconds, fastest.seconds);
    std::cout << one.chain << "memory " << one.platform.memory_bytes << ", host "
              << one.platform.host_memory_bytes << ", offload "
              << one.platform.offload_bytes_per_second << " B/s, prefetch "
              << one.platform.prefetch_rate() << " B/s, latency "
              << one.platform.transfer_latency_seconds
              << (one.platform.half_duplex ? ", half duplex" : "") << "\n  found   "
              << answer->schedule << "\n  optimum " << fastest.schedule << std::endl;
  }
}

void Print(const std::string& name, const Sums& sums) {
  const double cases = std::max(1, sums.cases);
  absl::PrintF("%-14s %7d %7d %9.4f %% %9.3f %% %7d  %8.3f %% %6d\n", name, sums.cases, sums.slower,
               100 * sums.excess / cases, 100 * sums.worst, sums.missed, 100 * sums.bound / cases,
               sums.above);
}

void Run() {
  std::map<std::string, Sums> by_kind;
  const int first = options.seed;
  const int end = first + options.cases;
  for (int seed = first; seed < end; ++seed) {
    constexpr int kBetween = 100;
    if ((seed - first) % kBetween == 0) {
      Progress(absl::StrFormat("case %d of %d", seed - first + 1, options.cases));
    }
    const Case one = CaseOf(seed);
    const std::optional<ProgramResult> fastest =
        FastestProgram(one.chain, one.platform, {.max_nodes = static_cast<size_t>(options.nodes)});
    if (!fastest.has_value() || fastest->gave_up) continue;
    Add(seed, one, *fastest, &by_kind[one.kind]);
  }
  absl::PrintF("%-14s %7s %7s %11s %11s %7s  %10s %6s\n", "kind", "cases", "slower", "mean",
               "worst", "missed", "bound", "above");
  Sums all;
  for (const auto& [kind, sums] : by_kind) {
    Print(kind, sums);
    all.cases += sums.cases;
    all.slower += sums.slower;
    all.missed += sums.missed;
    all.above += sums.above;
    all.excess += sums.excess;
    all.bound += sums.bound;
    all.worst = std::max(all.worst, sums.worst);
  }
  Print("all", all);
}

int Main(int argc, char** argv) {
  BenchmarkFlags flags("stowage_exact_comparison",
                       "Prints how far auto is from the fastest schedule there is, on small random "
                       "chains.");
  constexpr int kMany = 1'000'000'000;
  flags.AddNumber("--cases", {1, kMany}, &options.cases, "random cases");
  flags.AddNumber("--seed", {0, kMany}, &options.seed, "of the first case; the next ones count up");
  flags.AddNumber("--stages", {2, 6}, &options.stages, "of the longest chain");
  flags.AddNumber<int64_t>("--nodes", {1, kMany}, &options.nodes,
                           "of the search, before it gives up on a case");
  flags.AddSolver(&options.solver);
  flags.AddNumber("--report", {0.0, 1e9}, &options.report,
                  "prints cases that are slower by this share or more");
  if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
  Run();
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
