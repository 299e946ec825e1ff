// Whether `auto` answers more slowly where it has more of something: sweeps of many budgets over
// the profiles of tests/data, with a link and without.
//   steps     of the sweep, from one budget to the next larger one
//   up        steps whose makespan grows, and those among them that grow by more than 0.1 %
//   worst     the largest growth, in percent
//   log sum   the mean over the sweep of the logarithm of the makespan: compares versions
//   s         the mean time of a solve, on one core
// With --easier every budget is also solved with a tenth more bandwidth, and without latency where
// there is some; answers that are slower than the original are counted the same way.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/profiles.h"

namespace stowage {
namespace {

struct Options {
  std::string chains;
  int every = 1;
  int max_stages = 120;
  int points = 100;
  std::vector<std::string> links = {"0", "12h", "3"};
  double latency = 0;
  std::string solver = "auto";
  bool easier = false;
  std::string output;
};
Options options;  // set by Main()

constexpr double kNoise = 1e-9;

class Steps {
 public:
  // The makespan of a problem, and of one that is no harder.
  void Add(double harder, double easier) {
    ++count_;
    const double growth = easier / harder - 1;
    if (growth > kNoise) ++up_;
    if (growth > 1e-3) ++far_up_;
    worst_ = std::max(worst_, growth);
  }
  void Add(const Steps& other) {
    count_ += other.count_;
    up_ += other.up_;
    far_up_ += other.far_up_;
    worst_ = std::max(worst_, other.worst_);
  }
  std::string ToString() const {
    return absl::StrFormat("%6d %5d %5d %8.4f", count_, up_, far_up_, 100 * worst_);
  }

 private:
  int count_ = 0;
  int up_ = 0;
  int far_up_ = 0;
  double worst_ = 0;
};

std::optional<double> Makespan(const Chain& chain, const Platform& platform) {
  const auto answer = AnswerRequest({chain, platform, options.solver, {}}, {});
  if (!answer.ok() || answer->outcome == Outcome::kInfeasible) return std::nullopt;
  return answer->prediction.makespan_seconds;
}

class Sweeps {
 public:
  Sweeps() {
    if (!options.output.empty()) output_.open(options.output);
  }

  bool can_write() const { return options.output.empty() || output_.is_open(); }

  void Run(const std::string& name, const Chain& chain, const std::string& link) {
    Progress(absl::StrCat(name, " ", link));
    Platform platform = LinkPlatform(link).value();
    platform.transfer_latency_seconds = options.latency;
    const int64_t low = FloorOfMemory(chain).bytes;
    const int64_t high = StoreAllPeakBytes(chain);
    Steps steps;
    std::optional<double> before;
    double logs = 0;
    double seconds = 0;
    int solved = 0;
    const int points = options.points;
    for (int i = 1; i <= points; ++i) {
      platform.memory_bytes = low + (high - low) / points * i;
      const std::clock_t begin = std::clock();
      const std::optional<double> makespan = Makespan(chain, platform);
      const double taken = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      seconds += taken;
      if (!makespan.has_value()) continue;
      ++solved;
      logs += std::log(*makespan);
      if (before.has_value()) steps.Add(*before, *makespan);
      before = makespan;
      if (output_.is_open()) {
        output_ << absl::StrFormat("%s,%s,%d,%.12g,%.6f\n", name, link, i, *makespan, taken)
                << std::flush;
      }
      if (options.easier) SolveEasier(chain, platform, *makespan);
    }
    absl::PrintF("%-36s %-4s %s %11.6f %8.4f\n", name, link, steps.ToString(),
                 logs / std::max(1, solved), seconds / points);
    by_kind_[link == "0" ? "more memory, no link" : "more memory, link"].Add(steps);
  }

  void Summarize() const {
    for (const auto& [kind, steps] : by_kind_) {
      absl::PrintF("%-41s %s\n", kind, steps.ToString());
    }
  }

 private:
  void SolveEasier(const Chain& chain, const Platform& platform, double makespan) {
    const auto add = [&](const char* kind, const Chain& other, const Platform& on) {
      const std::optional<double> easier = Makespan(other, on);
      if (easier.has_value()) by_kind_[kind].Add(makespan, *easier);
    };
    if (platform.has_link()) {
      Platform faster = platform;
      faster.offload_bytes_per_second *= 1.1;
      add("a tenth more bandwidth", chain, faster);
      if (platform.transfer_latency_seconds > 0) {
        Platform prompt = platform;
        prompt.transfer_latency_seconds = 0;
        add("no latency", chain, prompt);
      }
    }
  }

  std::ofstream output_;
  std::map<std::string, Steps> by_kind_;
};

int RunAll() {
  Sweeps sweeps;
  if (!sweeps.can_write()) {
    Progress(absl::StrCat("--output: cannot write ", options.output));
    return 1;
  }
  absl::PrintF("%-36s %-4s %6s %5s %5s %8s %11s %8s\n", "chain", "link", "steps", "up", ">0.1%",
               "worst %", "log sum", "s");
  int index = 0;
  for (const std::string& name : AllProfiles()) {
    if (!absl::StrContains(name, options.chains)) continue;
    const Chain chain = LoadProfile(name);
    if (chain.length() > options.max_stages) continue;
    if (index++ % options.every != 0) continue;
    for (const std::string& link : options.links) sweeps.Run(name, chain, link);
  }
  sweeps.Summarize();
  return 0;
}

int Main(int argc, char** argv) {
  BenchmarkFlags flags("stowage_auto_sweep",
                       "Prints whether auto is slower where it has more memory.");
  constexpr int kMany = 1'000'000;
  flags.AddText("--chains", &options.chains, "only chains whose name contains this");
  flags.AddNumber("--every", {1, kMany}, &options.every, "only one of so many chains");
  flags.AddNumber("--max-stages", {1, kMaxStages}, &options.max_stages,
                  "only chains of up to so many stages");
  flags.AddNumber("--points", {1, kMany}, &options.points,
                  "budgets of a sweep, evenly from the memory floor to storing all");
  flags.AddLinks(&options.links);
  flags.AddNumber("--latency", {0.0, 10.0}, &options.latency, "of a transfer, in seconds");
  flags.AddSolver(&options.solver);
  flags.AddSwitch("--easier", &options.easier, "also solves easier problems");
  flags.AddText("--output", &options.output, "a file for one line of CSV a budget");
  if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
  return RunAll();
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
