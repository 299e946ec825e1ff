// What a training job loses by the settings that its framework can express, on the profiles of
// tests/data without a link: each solver of algorithms/flat beside auto within the same memory, and
// beside the settings that frameworks suggest, within the memory that those happen to take. Times
// are the simulator's.
//
// A layer is a stage of a profile, or, where its names say so, a transformer block of two stages.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "solver/algorithms/flat/flat_plan.h"
#include "solver/algorithms/flat/layers.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/chains.h"
#include "tests/support/profiles.h"

namespace stowage {
namespace {

constexpr const char* kClasses[] = {"flat", "per_layer", "uniform", "block", "every_nth"};

// "block3.attention" and "block3.mlp" are one layer.
Chain WithLayers(Chain chain) {
  for (Stage& stage : chain.stages) {
    if (!absl::EndsWith(stage.name, ".attention") && !absl::EndsWith(stage.name, ".mlp")) continue;
    stage.fusion_group = stage.name.substr(0, stage.name.find('.'));
  }
  return chain;
}

// The makespan within so much memory; nullopt: infeasible.
std::optional<double> SecondsOf(const Chain& chain, const std::string& solver, int64_t memory) {
  const absl::StatusOr<Answer> answer = AnswerRequest({chain, Memory(memory), solver, {}}, {});
  if (!answer.ok()) {
    std::fprintf(stderr, "%s\n", answer.status().ToString().c_str());
    std::exit(1);
  }
  if (answer->outcome == Outcome::kInfeasible) return std::nullopt;
  return answer->prediction.makespan_seconds;
}

// By how much each of several times is above another, relatively.
class Excess {
 public:
  void Add(std::optional<double> seconds, double other) {
    if (!seconds.has_value()) {
      ++infeasible_;
      return;
    }
    const double excess = *seconds / other - 1;
    sum_ += excess;
    most_ = count_ == 0 ? excess : std::max(most_, excess);
    ++count_;
  }

  std::string Text() const {
    if (count_ == 0) return absl::StrFormat("none fits (%d)", infeasible_);
    return absl::StrFormat("%6.2f %7.2f %4d", 100 * sum_ / count_, 100 * most_, infeasible_);
  }

 private:
  double sum_ = 0;
  double most_ = 0;
  int count_ = 0;
  int infeasible_ = 0;
};

void PrintLosses(const std::vector<Chain>& chains, const std::vector<int>& percents) {
  absl::PrintF(
      "By how much the makespan is longer than auto's within the same memory, in %%: mean, most, "
      "and\nof how many profiles no plan of the class fits, where auto has a schedule.\n\n%-8s",
      "memory");
  for (const char* name : kClasses) absl::PrintF("  %20s", name);
  absl::PrintF("\n");
  for (const int percent : percents) {
    std::vector<Excess> losses(std::size(kClasses));
    for (const Chain& chain : chains) {
      Progress(absl::StrFormat("%s at %d %%", chain.name, percent));
      const int64_t low = FloorOfMemory(chain).bytes;
      const int64_t memory = low + (StoreAllPeakBytes(chain) - low) / 100 * percent;
      const std::optional<double> best = SecondsOf(chain, "auto", memory);
      if (!best.has_value()) continue;
      for (size_t i = 0; i < losses.size(); ++i) {
        losses[i].Add(SecondsOf(chain, kClasses[i], memory), *best);
      }
    }
    absl::PrintF("%4d %%  ", percent);
    for (const Excess& loss : losses) absl::PrintF("  %20s", loss.Text());
    absl::PrintF("\n");
  }
}

using PlanOfSetting = std::vector<Piece> (*)(const Chain&, const std::vector<Piece>&, int);

// What frameworks suggest.
struct Suggestion {
  const char* name;
  PlanOfSetting plan;
  int count;
};
constexpr Suggestion kSuggestions[] = {
    {"every layer", UniformPlan, 1},
    {"every 2nd", EveryNthPlan, 2},
};

void PrintGains(const std::vector<Chain>& chains) {
  absl::PrintF(
      "\nBy how much the makespan of a usual setting is longer than the best within the memory "
      "that it\ntakes, in %%: mean, most, and of how many profiles there is none.\n\n%-12s",
      "setting");
  std::vector<std::string> solvers(std::begin(kClasses), std::end(kClasses));
  solvers.emplace_back("auto");
  for (const std::string& name : solvers) absl::PrintF("  %20s", name);
  absl::PrintF("\n");
  for (const Suggestion& suggestion : kSuggestions) {
    std::vector<Excess> gains(solvers.size());
    for (const Chain& chain : chains) {
      Progress(absl::StrFormat("%s, recomputing %s", chain.name, suggestion.name));
      const auto usual =
          Simulate(chain, Memory(std::numeric_limits<int64_t>::max()),
                   FlatSchedule(chain, suggestion.plan(chain, LayersOf(chain), suggestion.count)));
      if (!usual.ok()) std::exit(1);
      const Prediction& prediction = usual->prediction;
      for (size_t i = 0; i < solvers.size(); ++i) {
        const std::optional<double> best =
            SecondsOf(chain, solvers[i], prediction.peak_memory_bytes);
        if (best.has_value()) {
          gains[i].Add(prediction.makespan_seconds, *best);
        } else {
          gains[i].Add(std::nullopt, 1);
        }
      }
    }
    absl::PrintF("%-12s", suggestion.name);
    for (const Excess& gain : gains) absl::PrintF("  %20s", gain.Text());
    absl::PrintF("\n");
  }
}

int Main(int argc, char** argv) {
  BenchmarkFlags flags("stowage_flat_comparison",
                       "Prints what the settings of frameworks lose against auto, and gain over "
                       "the usual ones, on the profiles of tests/data.");
  std::vector<int> percents = {5, 10, 20, 40, 80};
  flags.AddNumbers("--percents", {0, 100}, &percents,
                   "memory: so much of the way from the memory floor to what storing all takes");
  if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
  std::vector<Chain> chains;
  for (const std::string& name : AllProfiles()) chains.push_back(WithLayers(LoadProfile(name)));
  absl::PrintF("%d profiles without a link.\n\n", chains.size());
  PrintLosses(chains, percents);
  PrintGains(chains);
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
