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
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "tests/support/profiles.h"

ABSL_FLAG(std::string, chains, "", "only chains whose name contains this");
ABSL_FLAG(int, every, 1, "only one of so many chains");
ABSL_FLAG(int, most_stages, 120, "only chains of up to so many stages");
ABSL_FLAG(int, points, 100, "budgets of a sweep, evenly from the least memory to storing all");
ABSL_FLAG(std::vector<std::string>, links, (std::vector<std::string>{"0", "12h", "3"}),
          "GB/s to the host and back; 0: no link; h: both directions share it");
ABSL_FLAG(double, latency, 0, "of a transfer, in seconds");
ABSL_FLAG(std::string, solver, "auto", "the solver");
ABSL_FLAG(bool, easier, false, "also solves easier problems");
ABSL_FLAG(std::string, output, "", "a file for one line of CSV a budget");

namespace stowage {
namespace {

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
  const auto answer = AnswerRequest({chain, platform, absl::GetFlag(FLAGS_solver), {}}, {});
  if (!answer.ok() || answer->outcome == Outcome::kInfeasible) return std::nullopt;
  return answer->prediction.makespan_seconds;
}

class Sweeps {
 public:
  Sweeps() {
    const std::string output = absl::GetFlag(FLAGS_output);
    if (!output.empty()) output_.open(output);
  }

  void Run(const std::string& name, const Chain& chain, const std::string& link) {
    double bandwidth = 0;
    if (!absl::SimpleAtod(link.substr(0, link.find('h')), &bandwidth)) return;
    Platform platform;
    platform.offload_bytes_per_second = bandwidth * 1e9;
    platform.half_duplex = absl::StrContains(link, 'h');
    platform.transfer_latency_seconds = absl::GetFlag(FLAGS_latency);
    const int64_t low = FloorOfMemory(chain).bytes;
    const int64_t high = StoreAllPeakBytes(chain);
    Steps steps;
    std::optional<double> before;
    double logs = 0;
    double seconds = 0;
    int solved = 0;
    const int points = absl::GetFlag(FLAGS_points);
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
      if (absl::GetFlag(FLAGS_easier)) SolveEasier(chain, platform, *makespan);
    }
    absl::PrintF("%-36s %-4s %s %11.6f %8.4f\n", name, link, steps.ToString(),
                 logs / std::max(1, solved), seconds / points);
    std::fflush(stdout);
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

void RunAll() {
  absl::PrintF("%-36s %-4s %6s %5s %5s %8s %11s %8s\n", "chain", "link", "steps", "up", ">0.1%",
               "worst %", "log sum", "s");
  Sweeps sweeps;
  int index = 0;
  for (const std::string& name : AllProfiles()) {
    if (!absl::StrContains(name, absl::GetFlag(FLAGS_chains))) continue;
    const Chain chain = LoadProfile(name);
    if (chain.length() > absl::GetFlag(FLAGS_most_stages)) continue;
    if (index++ % absl::GetFlag(FLAGS_every) != 0) continue;
    for (const std::string& link : absl::GetFlag(FLAGS_links)) sweeps.Run(name, chain, link);
  }
  sweeps.Summarize();
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("whether auto is slower where it has more memory");
  absl::ParseCommandLine(argc, argv);
  stowage::RunAll();
}
