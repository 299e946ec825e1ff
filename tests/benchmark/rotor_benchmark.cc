// Rotor's table of slots against the textbook's, in one printed table: time, threads, memory.
//
// Every time is a case of Google Benchmark: one build of the table an iteration, wall time. Run
// some of them only with --benchmark_filter=equal/200. Peak memory is what a process of its own
// comes to that builds the table, less what one comes to that only makes the chain.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "benchmark/benchmark.h"
#include "solver/algorithms/rematerialization/rotor_table.h"
#include "solver/base/thread_pool.h"
#include "solver/bounds/memory_range.h"
#include "solver/kernels/min_plus.h"
#include "solver/model/modes.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/network_chains.h"
#include "tests/support/textbook_rotor.h"

namespace stowage {
namespace {

struct Options {
  int slots = 500;
  int percent = 30;
  int textbook = 200;
};
Options options;  // set by Main()

constexpr int kLengths[] = {50, 100, 200, 339, 1000};
constexpr double kMebibyte = 1 << 20;

// One row.
struct Case {
  const char* kind;
  Chain (*make)(int stages);
  int stages = 0;

  std::string Name(const std::string& what) const {
    return absl::StrCat(kind, "/", stages, "/", what);
  }
  Chain MakeChain() const { return make(stages); }
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const auto& [kind, make] :
       {std::pair("equal", &EqualNetwork), std::pair("resnet-like", &ResnetLikeNetwork),
        std::pair("densenet-like", &DensenetLikeNetwork)}) {
    for (const int stages : kLengths) cases.push_back({kind, make, stages});
  }
  return cases;
}

// Fewer where they take seconds.
int RepetitionsOf(const Case& each) { return each.stages < 1000 ? 7 : 3; }

RotorTable::Options TableOptions(const Chain& chain) {
  const int64_t low = FloorOfMemory(chain).bytes;
  const int64_t bytes = low + (StoreAllPeakBytes(chain) - low) / 100 * options.percent;
  const int64_t slots = options.slots;
  return {{bytes, slots, SlotGrid::Rounding::kUp}, slots, Saving::kAlways, slots};
}

RotorTable Build(const Chain& chain, ThreadPool* threads) {
  SolveContext context;
  context.threads = threads;
  return *RotorTable::Build(chain, TableOptions(chain), context);
}

TextbookRotor BuildTextbook(const Chain& chain) {
  const RotorTable::Options table = TableOptions(chain);
  return TextbookRotor(
      chain, [&table](int64_t bytes) { return table.grid.Slots(bytes); },
      static_cast<int>(table.levels));
}

// Seconds of each repetition, by case.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    if (!runs.empty()) Progress("timed " + runs.front().run_name.function_name);
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration) {
        seconds_[run.run_name.function_name].push_back(run.GetAdjustedRealTime());
      }
    }
  }

  std::optional<double> Best(const std::string& name) const { return At(name, 0); }
  std::optional<double> Median(const std::string& name) const { return At(name, 0.5); }

 private:
  std::optional<double> At(const std::string& name, double quantile) const {
    const auto found = seconds_.find(name);
    if (found == seconds_.end()) return std::nullopt;
    std::vector<double> sorted = found->second;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<size_t>(quantile * static_cast<double>(sorted.size()))];
  }

  std::map<std::string, std::vector<double>> seconds_;
};

void Register(const std::string& name, int repetitions, std::function<void()> body) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [body = std::move(body)](benchmark::State& state) {
                                 for (auto _ : state) body();
                               })
      ->Iterations(1)
      ->Repetitions(repetitions)
      ->UseRealTime()
      ->Unit(benchmark::kSecond);
}

void RegisterCase(const Case& each) {
  for (const int threads : {1, 2}) {
    // The calling thread works, too.
    const auto helpers = std::make_shared<ThreadPool>(threads - 1);
    Register(each.Name(absl::StrCat("threads_", threads)), RepetitionsOf(each),
             [chain = each.MakeChain(), helpers] {
               benchmark::DoNotOptimize(Build(chain, helpers.get()));
             });
  }
  if (each.stages > options.textbook) return;
  Register(each.Name("textbook"), 1,
           [chain = each.MakeChain()] { benchmark::DoNotOptimize(BuildTextbook(chain)); });
}

// The most memory that a process of its own has resident while it runs `body`.
int64_t PeakBytes(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  rusage usage = {};
  if (child < 0 || wait4(child, nullptr, 0, &usage) != child) return 0;
  return usage.ru_maxrss * 1024;
}

int64_t PeakBytesOf(const Case& each) {
  const int64_t chain_only = PeakBytes([&each] { benchmark::DoNotOptimize(each.MakeChain()); });
  const int64_t all =
      PeakBytes([&each] { benchmark::DoNotOptimize(Build(each.MakeChain(), nullptr)); });
  return all - chain_only;
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

void PrintHeader() {
  absl::PrintF(
      "Rotor's table within %d slots, memory %d %% of the way from the memory floor to storing "
      "all.\n"
      "%s, %u threads of hardware; the kernel runs on %s.\n"
      "Seconds: wall time of one build, best and (median) of %d builds, %d of 1000 stages; the "
      "textbook's: of one.\n"
      "~: not run, extrapolated from the longest that was by the cube of the length.\n"
      "MiB: textbook's table; most that the fast one may allocate; what it had resident (one "
      "thread).\n\n",
      options.slots, options.percent, CpuName(), std::thread::hardware_concurrency(),
      MinPlusTargets().at(1), RepetitionsOf({.kind = "", .make = nullptr, .stages = 50}),
      RepetitionsOf({.kind = "", .make = nullptr, .stages = 1000}));
  absl::PrintF("%-14s %5s  %10s  %17s %8s  %17s %6s  %9s %9s %9s\n", "chain", "L", "textbook s",
               "1 thread s", "ratio", "2 threads s", "ratio", "textbook", "bound", "resident");
}

std::string Times(const Collector& times, const std::string& name) {
  const std::optional<double> best = times.Best(name);
  if (!best.has_value()) return "-";
  return absl::StrFormat("%.4f (%.4f)", *best, *times.Median(name));
}

std::string Ratio(std::optional<double> slow, std::optional<double> fast, const char* mark) {
  if (!slow.has_value() || !fast.has_value()) return "-";
  const double ratio = *slow / *fast;
  return absl::StrFormat("%s%.*f", mark, ratio < 10 ? 2 : 0, ratio);
}

// `measured`: the longest of this kind that was, stages and seconds.
void PrintRow(const Collector& times, const Case& each, int64_t peak_bytes,
              std::pair<int, double>* measured) {
  std::optional<double> textbook = times.Best(each.Name("textbook"));
  const char* mark = "";
  if (textbook.has_value()) {
    *measured = {each.stages, *textbook};
  } else if (measured->first > 0) {
    textbook = measured->second * std::pow(1.0 * each.stages / measured->first, 3);
    mark = "~";
  }
  const Chain chain = each.MakeChain();
  const int64_t slots = options.slots;
  const double parts = std::pow(each.stages + 1.0, 2);
  const std::string one = each.Name("threads_1");
  const std::string two = each.Name("threads_2");
  absl::PrintF("%-14s %5d  %10s  %17s %8s  %17s %6s  %9.1f %9.1f %9.1f\n", each.kind, each.stages,
               textbook.has_value() ? absl::StrFormat("%s%.3f", mark, *textbook) : "-",
               Times(times, one), Ratio(textbook, times.Best(one), mark), Times(times, two),
               Ratio(times.Best(one), times.Best(two), ""),
               parts * static_cast<double>(slots + 1) * sizeof(double) / kMebibyte,
               static_cast<double>(RotorTable::WorkingBytes(chain, slots)) / kMebibyte,
               static_cast<double>(peak_bytes) / kMebibyte);
}

// A fast table that says something else is no faster table.
bool SaysTheSame(const Case& each) {
  const Chain chain = each.MakeChain();
  const std::optional<double> lost = Build(chain, nullptr).LostSecondsAt(options.slots);
  const double textbook = BuildTextbook(chain).Seconds(options.slots);
  if (!lost.has_value()) return textbook == TextbookRotor::kNone;
  return std::abs(ComputeSeconds(chain) + *lost - textbook) <= 1e-5 * textbook;
}

int RunAll() {
  const std::vector<Case> cases = AllCases();
  std::vector<int64_t> peaks;  // first, while this process is small and has one thread
  peaks.reserve(cases.size());
  for (const Case& each : cases) {
    Progress(each.Name("memory"));
    peaks.push_back(PeakBytesOf(each));
  }
  for (const Case& each : cases) {
    if (each.stages <= 100 && !SaysTheSame(each)) {
      std::fprintf(stderr, "%s: the two tables differ\n", each.Name("").c_str());
      return 1;
    }
  }
  for (const Case& each : cases) RegisterCase(each);
  Collector times;
  benchmark::RunSpecifiedBenchmarks(&times);
  PrintHeader();
  std::pair<int, double> measured;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (i > 0 && std::string(cases[i].kind) != cases[i - 1].kind) measured = {};
    const bool ran = times.Best(cases[i].Name("threads_1")).has_value() ||
                     times.Best(cases[i].Name("threads_2")).has_value() ||
                     times.Best(cases[i].Name("textbook")).has_value();
    if (ran) PrintRow(times, cases[i], peaks[i], &measured);  // else filtered out
  }
  return 0;
}

// Google Benchmark's flags go to Google Benchmark, which ends the program at one that it does not
// know; all others are ours.
int Main(int argc, char** argv) {
  std::vector<char*> ours = {argv[0]};
  std::vector<char*> theirs = {argv[0]};
  for (int i = 1; i < argc; ++i) {
    (absl::StartsWith(argv[i], "--benchmark_") ? theirs : ours).push_back(argv[i]);
  }
  BenchmarkFlags flags("stowage_rotor_benchmark",
                       "Prints the time and memory of rotor's table of slots beside the "
                       "textbook's. Flags that begin with --benchmark_ are Google Benchmark's, as "
                       "in --benchmark_filter=equal/200.");
  flags.AddNumber("--slots", {1, 1'000'000}, &options.slots, "memory slots");
  flags.AddNumber("--percent", {0, 100}, &options.percent,
                  "memory: so much of the way from the memory floor to what storing all takes");
  flags.AddNumber("--textbook", {0, kMaxStages}, &options.textbook,
                  "the longest chain for which the textbook is timed: 339 takes a minute each; "
                  "times of longer ones are extrapolated by the cube of the length, and marked ~");
  if (const std::optional<int> code = flags.Parse(static_cast<int>(ours.size()), ours.data())) {
    return *code;
  }
  auto count = static_cast<int>(theirs.size());
  benchmark::Initialize(&count, theirs.data());
  if (benchmark::ReportUnrecognizedArguments(count, theirs.data())) return 1;
  return RunAll();
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
