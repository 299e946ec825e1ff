// What recomputation with offloading costs and gains, on resnet-like chains of several lengths:
// memory at 20 % of the range, a link on which copying everything once takes as long as a step.
//   relaxed    one relaxed plan, from the instance (pofo_program.h), its converted schedule
//   pofo       the portfolio
//   auto       all solvers and the local search
//   literal    the paper's program on 50 slots, its relaxed makespan (tests/support/literal_pofo.h)
// Best of three seconds; overheads over storing everything.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>

#include "absl/strings/str_format.h"
#include "solver/algorithms/answer.h"
#include "solver/algorithms/pofo.h"
#include "solver/algorithms/rotor.h"
#include "solver/simulator/lower_bound.h"
#include "tests/support/literal_pofo.h"
#include "tests/support/network_chains.h"

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

Platform PlatformFor(const Chain& chain) {
  int64_t bytes = chain.input_bytes;
  for (int l = 1; l <= chain.length(); ++l) bytes += chain.saved_bytes(l);
  const int64_t low = FloorOfMemory(chain).bytes;
  Platform platform;
  platform.memory_bytes = low + (StoreAllPeakBytes(chain) - low) / 5;
  platform.offload_bytes_per_second = static_cast<double>(bytes) / chain.ComputeSeconds();
  platform.half_duplex = true;
  return platform;
}

void Print(const char* what, double took, double seconds, const Chain& chain) {
  absl::PrintF("  %-9s %9.3f s  overhead %7.3f %%\n", what, took,
               100 * (seconds / chain.ComputeSeconds() - 1));
}

void Measure(int stages, bool with_literal) {
  const Chain chain = ResnetLikeNetwork(stages);
  const Platform platform = PlatformFor(chain);
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
  const double relaxed = chain.ComputeSeconds() + outcome.relaxed_lost_seconds.value_or(0);
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
}

}  // namespace
}  // namespace stowage

int main() {
  for (const int stages : {20, 50, 100, 200, 340}) {
    stowage::Measure(stages, /*with_literal=*/stages <= 50);
    std::fflush(stdout);
  }
}
