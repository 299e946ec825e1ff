// What the exact solvers of algorithms/flat cost beside rotor: Google Benchmark's table, wall time
// of one solve on one thread without the lower bounds of an answer. The last column is the time as
// a share of rotor's in the same run.
//
// Some of them only: --benchmark_filter=resnet-like/339.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/instance.h"
#include "solver/solve/catalog.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/network_chains.h"

namespace stowage {
namespace {

constexpr int kLengths[] = {339, 1000};
constexpr int kPercents[] = {5, 20, 50, 80};
constexpr const char* kSolvers[] = {"rotor", "flat", "per_layer"};  // rotor first

// Whether there is a schedule.
bool SolveOnce(const Solver& solver, const Instance& instance) {
  const auto solution = solver.Solve(instance, {});
  if (!solution.ok()) std::abort();
  const auto found = (*solution)->ScheduleWithin(instance.platform().memory_bytes, {});
  if (!found.ok()) std::abort();
  return found->has_value();
}

// Mean seconds of rotor, by chain and budget.
std::map<std::string, double>& SecondsOfRotor() {
  static auto& seconds = *new std::map<std::string, double>();
  return seconds;
}

void Register(const std::string& what, const std::string& name, const Chain& chain, int percent) {
  const int64_t low = FloorOfMemory(chain).bytes;
  Platform platform;
  platform.memory_bytes = low + (StoreAllPeakBytes(chain) - low) / 100 * percent;
  const auto instance =
      std::make_shared<const Instance>(Instance::Exact({chain, platform, name, {}}));
  const auto body = [what, name, instance](benchmark::State& state) {
    const std::unique_ptr<Solver> solver = FindSolver(name)->make();
    double seconds = 0;
    for (auto _ : state) {
      const auto begin = std::chrono::steady_clock::now();
      if (!SolveOnce(*solver, *instance)) state.SkipWithError("infeasible");
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    seconds /= static_cast<double>(state.iterations());
    if (name == kSolvers[0]) SecondsOfRotor()[what] = seconds;
    const auto rotor = SecondsOfRotor().find(what);
    if (rotor != SecondsOfRotor().end()) state.counters["of_rotor"] = seconds / rotor->second;
  };
  benchmark::RegisterBenchmark(absl::StrCat(what, "/", name).c_str(), body)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

// Google Benchmark's flags go to Google Benchmark; all others are ours.
int Main(int argc, char** argv) {
  std::vector<char*> ours = {argv[0]};
  std::vector<char*> theirs = {argv[0]};
  for (int i = 1; i < argc; ++i) {
    (absl::StartsWith(argv[i], "--benchmark_") ? theirs : ours).push_back(argv[i]);
  }
  BenchmarkFlags flags("stowage_flat_benchmark",
                       "Prints what flat and per_layer cost beside rotor. Flags that begin with "
                       "--benchmark_ are Google Benchmark's, as in --benchmark_filter=equal/339.");
  if (const std::optional<int> code = flags.Parse(static_cast<int>(ours.size()), ours.data())) {
    return *code;
  }
  auto count = static_cast<int>(theirs.size());
  benchmark::Initialize(&count, theirs.data());
  if (benchmark::ReportUnrecognizedArguments(count, theirs.data())) return 1;
  for (const auto& [kind, make] :
       {std::pair("equal", &EqualNetwork), std::pair("resnet-like", &ResnetLikeNetwork),
        std::pair("densenet-like", &DensenetLikeNetwork)}) {
    for (const int stages : kLengths) {
      for (const int percent : kPercents) {
        const std::string what = absl::StrCat(kind, "/", stages, "/", percent);
        for (const char* solver : kSolvers) Register(what, solver, make(stages), percent);
      }
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
