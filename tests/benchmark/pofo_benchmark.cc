// What recomputation with offloading costs and gains, on resnet-like chains of several lengths:
// memory at 20 % of the range, a link on which copying everything once takes as long as a step.
//   relaxed    one relaxed plan, from the instance (pofo_program.h), its converted schedule
//   pofo       the portfolio
//   auto       all solvers and the local search
//   literal    the paper's program on 50 slots, its relaxed makespan
//   (tests/support/literal_pofo.h),
//              and its plan with whole copies placed as pofo's are
// Best of three seconds; overheads over storing everything. Then how far the schedules of `auto`
// are from the relaxed optimum and from the lower bound: on chains of that kind, with memory at 10,
// 20 and 40 % of the range and links that copy everything in one step or in two.
#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "solver/algorithms/pofo/pofo.h"
#include "solver/algorithms/transfers/compute_sequence.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/solve/answer_request.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/literal_pofo.h"
#include "tests/support/network_chains.h"
#include "tests/support/profiles.h"

namespace stowage {
namespace {

double BestSeconds(int times, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, passed.count());
  }
  return best;
}

// `copied`: of everything, one way, in a step.
Platform PlatformFor(const Chain& chain, int percent, double copied) {
  int64_t bytes = chain.input_bytes;
  for (int l = 1; l <= chain.length(); ++l) bytes += chain.saved_bytes(l);
  const int64_t low = FloorOfMemory(chain).bytes;
  Platform platform;
  platform.memory_bytes = low + (StoreAllPeakBytes(chain) - low) / 100 * percent;
  platform.offload_bytes_per_second = copied * static_cast<double>(bytes) / ComputeSeconds(chain);
  platform.half_duplex = true;
  return platform;
}

void Print(const char* what, double took, double seconds, const Chain& chain) {
  absl::PrintF("  %-21s %9.3f s  overhead %7.3f %%\n", what, took,
               100 * (seconds / ComputeSeconds(chain) - 1));
}

// The makespan of a literal plan's schedule; nullopt where its whole copies do not fit.
std::optional<double> Converted(const Chain& chain, const Platform& platform,
                                const LiteralPofo& literal) {
  const ComputeSequence sequence = SequenceOf(chain, literal.computation);
  const auto first_backward = std::find_if(
      sequence.operations.begin(), sequence.operations.end(),
      [](const Operation& operation) { return operation.kind == OperationKind::kBackward; });
  const auto loss = static_cast<int>(first_backward - sequence.operations.begin());
  std::vector<GapChoice> choices(sequence.gaps.size());
  for (size_t g = 0; g < choices.size(); ++g) {
    const Gap& gap = sequence.gaps[g];
    for (const LiteralPofoPart& part : literal.parts) {
      const bool is_input = part.first - 1 == gap.value && gap.after < loss && gap.before > loss;
      if (is_input && part.offloads_input) choices[g].moved = true;
    }
  }
  return TransferPlacement(chain, platform).Place(sequence, choices, platform.memory_bytes);
}

void Measure(int stages, bool with_literal) {
  Progress(absl::StrFormat("%d stages", stages));
  const Chain chain = ResnetLikeNetwork(stages);
  const Platform platform = PlatformFor(chain, 20, 1);
  const Instance instance = Instance::Exact({chain, platform, "pofo", {}});
  absl::PrintF("L=%d\n", stages);
  for (const char* solver : {"rotor", "auto"}) {
    double seconds = 0;
    const double took = BestSeconds(solver[0] == 'a' ? 1 : 3, [&] {
      const auto answer = AnswerRequest({chain, platform, solver, {}}, {});
      seconds = answer.ok() ? answer->prediction.makespan_seconds : 0;
    });
    Print(solver, took, seconds, chain);
  }
  PofoOutcome outcome;
  const double portfolio = BestSeconds(1, [&] {
    outcome = *SolvePofo(instance, platform.memory_bytes, PofoExtent::kPortfolio, {});
  });
  Print("pofo", portfolio, outcome.seconds, chain);
  const double relaxed_took = BestSeconds(
      3, [&] { outcome = *SolvePofo(instance, platform.memory_bytes, PofoExtent::kOnePlan, {}); });
  const double relaxed = ComputeSeconds(chain) + outcome.relaxed_lost_seconds.value_or(0);
  Print("relaxed", relaxed_took, relaxed, chain);
  Print("converted", relaxed_took, outcome.seconds, chain);
  if (!with_literal) return;
  std::optional<LiteralPofo> literal;
  const double literal_took =
      BestSeconds(1, [&] { literal = LiteralPofoInSlots(chain, platform, 50); });
  if (!literal.has_value()) return;
  Print("literal", literal_took, literal->seconds, chain);
  absl::PrintF("  literal / relaxed: %.0f times the time, %.4f times the makespan\n",
               literal_took / relaxed_took, literal->seconds / relaxed);
  const std::optional<double> converted = Converted(chain, platform, *literal);
  if (converted.has_value()) Print("literal, whole copies", literal_took, *converted, chain);
}

// Sums up how much longer than something a makespan is.
class Excess {
 public:
  void Add(double seconds, double reference) {
    const double excess = seconds / reference - 1;
    sum_ += excess;
    worst_ = std::max(worst_, excess);
    ++count_;
  }
  double mean_percent() const { return 100 * sum_ / std::max(1, count_); }
  double worst_percent() const { return 100 * worst_; }

 private:
  double sum_ = 0;
  double worst_ = -1;
  int count_ = 0;
};

void Compare(const std::string& name, const Chain& chain) {
  Progress(absl::StrFormat("auto: %s, %d stages", name, chain.length()));
  Excess over_relaxed;
  Excess over_bound;
  double took = 0;
  for (const int percent : {10, 20, 40}) {
    for (const double copied : {0.5, 1.0}) {
      const Platform platform = PlatformFor(chain, percent, copied);
      absl::StatusOr<Answer> answer;
      took += BestSeconds(1, [&] { answer = AnswerRequest({chain, platform, "auto", {}}, {}); });
      const Instance instance = Instance::Exact({chain, platform, "pofo", {}});
      const PofoOutcome outcome =
          *SolvePofo(instance, platform.memory_bytes, PofoExtent::kPortfolio, {});
      if (!answer.ok() || !outcome.relaxed_lost_seconds.has_value()) continue;
      const Prediction& prediction = answer->prediction;
      over_relaxed.Add(prediction.makespan_seconds,
                       ComputeSeconds(chain) + *outcome.relaxed_lost_seconds);
      over_bound.Add(prediction.makespan_seconds, prediction.lower_bound_seconds);
    }
  }
  absl::PrintF("%-34s %4d  %8.3f %8.3f  %8.3f %8.3f  %7.3f\n", name, chain.length(),
               over_relaxed.mean_percent(), over_relaxed.worst_percent(), over_bound.mean_percent(),
               over_bound.worst_percent(), took / 6);
}

int Main(int argc, char** argv) {
  BenchmarkFlags flags(
      "stowage_pofo_benchmark",
      "Prints what recomputation with offloading costs and gains, and how far auto "
      "is from the relaxed optimum and the lower bound.");
  if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
  for (const int stages : {20, 50, 100, 200, 340}) Measure(stages, /*with_literal=*/stages <= 50);
  absl::PrintF(
      "\nauto over                             L  relaxed %%    worst   bound %%    worst"
      "   s each\n");
  Compare("resnet-like", ResnetLikeNetwork(60));
  Compare("densenet-like", DensenetLikeNetwork(60));
  Compare("resnet-like", ResnetLikeNetwork(340));
  for (const std::string& name : AllProfiles()) {
    const Chain chain = LoadProfile(name);
    if (chain.length() >= 30 && chain.length() <= 100) Compare(name, chain);
  }
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
