// What `auto` costs and how good its schedules are, on one core: every profile of tests/data under
// several budgets and links, chains that showed a defect, and chains of up to 10,000 stages. A
// budget is a percentage of the range from the memory floor to what storing everything takes.
//   s         of the solve, in CPU time: the solve runs on the calling thread alone
//   first     seconds until the first schedule, and how much slower it is than the last one
//   1 % …     how much slower the best schedule is after that share of the solve's time
//   1 s       the same after a second
//   makespan  of the answer; gap: over its lower bound
// --output writes every case as a line of CSV; --baseline reads such a file, as an earlier version
// of this program wrote it, and compares makespans and times case by case.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/solve/answer_request.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/network_chains.h"
#include "tests/support/profiles.h"

namespace stowage {
namespace {

struct Options {
  std::string chains;
  std::vector<int> percents = {2, 5, 10, 20, 40};
  std::vector<std::string> links = {"0", "3", "3h", "12", "12h", "50", "50h"};
  std::vector<int> lengths = {50, 100, 340, 1000, 3000, 10000};
  std::string solver = "auto";
  std::string output;
  std::string baseline;
};
Options options;  // set by Main()

// A schedule that was published after so many seconds.
struct Improvement {
  double after_seconds = 0;
  double makespan_seconds = 0;
};

struct Outcomes {
  double seconds = 0;  // the solve; 0: it failed
  double makespan_seconds = 0;
  double gap = 0;
  std::vector<Improvement> improvements;

  // How much slower the best schedule after so many seconds is than the answer; nullopt: there is
  // none yet.
  std::optional<double> LossAfter(double passed) const {
    std::optional<double> best;
    for (const Improvement& improvement : improvements) {
      if (improvement.after_seconds > passed) break;
      best = std::min(best.value_or(improvement.makespan_seconds), improvement.makespan_seconds);
    }
    if (!best.has_value()) return std::nullopt;
    return std::max(0.0, *best / makespan_seconds - 1);
  }
};

Outcomes Measure(const Chain& chain, const Platform& platform) {
  Outcomes outcomes;
  const std::clock_t begin = std::clock();
  const auto passed = [begin] {
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const auto answer =
      AnswerRequest({chain, platform, options.solver, {}}, {}, [&](const Answer& better) {
        outcomes.improvements.push_back({passed(), better.prediction.makespan_seconds});
      });
  if (!answer.ok() || answer->outcome == Outcome::kInfeasible) return outcomes;
  outcomes.seconds = passed();
  outcomes.makespan_seconds = answer->prediction.makespan_seconds;
  outcomes.gap = answer->prediction.gap;
  return outcomes;
}

// Mean and largest of a series.
class Series {
 public:
  void Add(double value) {
    sum_ += value;
    most_ = count_ == 0 ? value : std::max(most_, value);
    ++count_;
  }
  int count() const { return count_; }
  double mean() const { return sum_ / std::max(1, count_); }
  double most() const { return most_; }

 private:
  double sum_ = 0;
  double most_ = 0;
  int count_ = 0;
};

struct Baseline {
  double seconds = 0;
  double makespan_seconds = 0;
};

std::map<std::string, Baseline> ReadBaseline(const std::string& path) {
  std::map<std::string, Baseline> cases;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, ',');
    Baseline baseline;
    if (fields.size() < 3 || !absl::SimpleAtod(fields[1], &baseline.seconds) ||
        !absl::SimpleAtod(fields[2], &baseline.makespan_seconds)) {
      continue;
    }
    cases[fields[0]] = baseline;
  }
  return cases;
}

// What a table's last lines sum up.
class Comparison {
 public:
  Comparison() : baseline_(ReadBaseline(options.baseline)) {
    if (!options.output.empty()) output_.open(options.output);
  }

  bool can_write() const { return options.output.empty() || output_.is_open(); }

  void Run(const std::string& chain_name, const Chain& chain, int percent,
           const std::string& link) {
    const int64_t low = FloorOfMemory(chain).bytes;
    Platform platform = LinkPlatform(link).value();
    platform.memory_bytes = low + (StoreAllPeakBytes(chain) - low) / 100 * percent;
    const std::string name = absl::StrCat(chain_name, " ", percent, "% ", link);
    Progress(name);
    const Outcomes outcomes = Measure(chain, platform);
    if (outcomes.seconds == 0) {
      absl::PrintF("%-52s no answer\n", name);
      return;
    }
    Print(name, chain, outcomes);
    Compare(name, outcomes);
    gaps_[absl::StrCat(percent, "% ", link == "0" ? "no link" : "link")].Add(100 * outcomes.gap);
    if (output_.is_open()) {
      output_ << absl::StrFormat("%s,%.6f,%.12g,%.6f\n", name, outcomes.seconds,
                                 outcomes.makespan_seconds, outcomes.gap)
              << std::flush;
    }
  }

  void Summarize() const {
    for (const auto& [name, gaps] : gaps_) {
      absl::PrintF("gap at %-12s %7.3f %% mean %7.3f %% most of %d\n", name, gaps.mean(),
                   gaps.most(), gaps.count());
    }
    if (slower_.count() == 0) return;
    absl::PrintF("makespans: %+.4f %% mean, %+.4f %% worst (%s) of %d\n", slower_.mean(),
                 slower_.most(), slowest_, slower_.count());
    absl::PrintF("seconds: %.2f of what they were\n", seconds_ / baseline_seconds_);
  }

  static void PrintHead() {
    absl::PrintF("%-52s %5s %8s %8s %7s %7s %7s %7s %7s %7s %11s %7s\n",
                 "chain, budget, link (GB/s)", "L", "s", "first", "loss %", "1 %", "3 %", "10 %",
                 "30 %", "1 s", "makespan", "gap %");
  }

 private:
  static void Print(const std::string& name, const Chain& chain, const Outcomes& outcomes) {
    const double first =
        outcomes.improvements.empty() ? outcomes.seconds : outcomes.improvements[0].after_seconds;
    absl::PrintF("%-52s %5d %8.3f %8.4f", name, chain.length(), outcomes.seconds, first);
    for (const double after : {first, 0.01 * outcomes.seconds, 0.03 * outcomes.seconds,
                               0.1 * outcomes.seconds, 0.3 * outcomes.seconds, 1.0}) {
      const std::optional<double> loss = outcomes.LossAfter(after);
      absl::PrintF(" %7s", loss.has_value() ? absl::StrFormat("%.2f", 100 * *loss) : "-");
    }
    absl::PrintF(" %11.6f %7.3f", outcomes.makespan_seconds, 100 * outcomes.gap);
  }

  void Compare(const std::string& name, const Outcomes& outcomes) {
    const auto found = baseline_.find(name);
    if (found != baseline_.end()) {
      const Baseline& before = found->second;
      const double slower = 100 * (outcomes.makespan_seconds / before.makespan_seconds - 1);
      if (slower_.count() == 0 || slower > slower_.most()) slowest_ = name;
      slower_.Add(slower);
      seconds_ += outcomes.seconds;
      baseline_seconds_ += before.seconds;
      absl::PrintF("  %+8.4f %% in %5.2f of the time", slower, outcomes.seconds / before.seconds);
    }
    absl::PrintF("\n");
  }

  const std::map<std::string, Baseline> baseline_;
  std::ofstream output_;
  Series slower_;        // percent, than the baseline
  std::string slowest_;  // the case of its largest
  double seconds_ = 0;
  double baseline_seconds_ = 0;
  std::map<std::string, Series> gaps_;  // percent, by budget and whether there is a link
};

// 24 layers of 10 and 20 ms, with 1 MiB of output and 10 MiB saved.
Chain EqualLayers() {
  Chain chain;
  constexpr int64_t kMebibyte = 1 << 20;
  chain.input_bytes = kMebibyte;
  Stage layer;
  layer.forward_seconds = 0.01;
  layer.backward_seconds = 0.02;
  layer.output_bytes = kMebibyte;
  layer.saved_bytes = 10 * kMebibyte;
  chain.stages.assign(24, layer);
  return chain;
}

int RunAll() {
  Comparison comparison;
  if (!comparison.can_write()) {
    Progress(absl::StrCat("--output: cannot write ", options.output));
    return 1;
  }
  Comparison::PrintHead();
  for (const std::string& name : AllProfiles()) {
    if (!absl::StrContains(name, options.chains)) continue;
    const Chain chain = LoadProfile(name);
    for (const int percent : options.percents) {
      for (const std::string& link : options.links) comparison.Run(name, chain, percent, link);
    }
  }
  for (const std::string& name : CaseProfiles()) {
    if (!absl::StrContains(name, options.chains)) continue;
    const Chain chain = LoadProfile(name);
    for (const int percent : {5, 20, 50}) comparison.Run(name, chain, percent, "0");
  }
  if (absl::StrContains("equal-24", options.chains)) {
    comparison.Run("equal-24", EqualLayers(), 5, "0");
  }
  for (const int stages : options.lengths) {
    for (const auto& [kind, chain] : {std::pair("resnet-like", ResnetLikeNetwork(stages)),
                                      std::pair("densenet-like", DensenetLikeNetwork(stages))}) {
      const std::string name = absl::StrCat(kind, "-", stages);
      if (!absl::StrContains(name, options.chains)) continue;
      for (const int percent : {5, 20}) {
        for (const char* link : {"0", "12h"}) comparison.Run(name, chain, percent, link);
      }
    }
  }
  comparison.Summarize();
  return 0;
}

int Main(int argc, char** argv) {
  BenchmarkFlags flags("stowage_auto_benchmark",
                       "Prints what auto costs and how good its schedules are.");
  flags.AddText("--chains", &options.chains, "only chains whose name contains this");
  flags.AddNumbers("--percents", {0, 100}, &options.percents, "budgets, in percent of the range");
  flags.AddLinks(&options.links);
  flags.AddNumbers("--lengths", {1, kMaxStages}, &options.lengths,
                   "stages of the chains that resemble networks, each with a link of 12 GB/s and "
                   "without");
  flags.AddSolver(&options.solver);
  flags.AddText("--output", &options.output, "a file for one line of CSV a case");
  flags.AddInputFile("--baseline", &options.baseline, "such a file, to compare with");
  if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
  return RunAll();
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
