#include "solver/algorithms/modes/mode_search.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "solver/algorithms/rematerialization/rotor.h"
#include "solver/algorithms/rematerialization/rotor_minimum.h"
#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// How many choices may be evaluated, at least `fewest`: each takes some N^3 steps and a few
// microseconds a stage.
int MostEvaluations(const Chain& chain, double fewest) {
  constexpr double kWork = 2e8;
  constexpr double kMax = 2000;
  const double stages = chain.length() + 1;
  return static_cast<int>(std::clamp(kWork / (stages * (stages * stages + 500)), fewest, kMax));
}

// The rotor that evaluates choices: the exact one for short chains, where it is quick.
std::unique_ptr<Solver> RotorFor(const Chain& chain) {
  constexpr int kShort = 16;
  return chain.length() <= kShort ? MakeRotor() : MakeRotorWithoutExactSteps();
}

// Infinite when there is no schedule, or not enough working memory to find one.
absl::StatusOr<double> MakespanOf(const Solver& solver, const Instance& instance,
                                  const SolveContext& context) {
  if (solver.WorkingBytes(instance) > context.working_bytes) return kInfiniteSeconds;
  ASSIGN_OR_RETURN(const auto solution, solver.Solve(instance, context));
  ASSIGN_OR_RETURN(const std::optional<Candidate> candidate,
                   solution->ScheduleWithin(instance.platform().memory_bytes, context));
  if (!candidate.has_value()) return kInfiniteSeconds;
  ASSIGN_OR_RETURN(const Simulation simulation,
                   Simulate(instance.chain(), instance.platform(), candidate->schedule));
  return simulation.prediction.makespan_seconds;
}

// What is minimized; infinite for an infeasible choice.
using Objective = std::function<absl::StatusOr<double>(const Execution&)>;

// One search. best_ and least_ are the incumbent; every step starts from it.
class ModeSearch {
 public:
  ModeSearch(const Instance& instance, int max_evaluations, Objective objective)
      : chain_(instance.chain()),
        units_(instance.units()),
        objective_(std::move(objective)),
        evaluations_left_(max_evaluations) {
    for (size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].has_graph) free_.push_back(u);
    }
  }

  absl::StatusOr<ModeChoice> Run(const std::vector<ModeChoice>& starts);

 private:
  // Evaluates a choice unless it has been before or no evaluations are left; true if it becomes the
  // incumbent.
  absl::StatusOr<bool> Try(const ModeChoice& choice);
  absl::Status TryAll();
  absl::Status TryWithoutLargest();
  absl::Status Climb();
  absl::StatusOr<bool> ClimbRuns(size_t width);
  absl::StatusOr<bool> ClimbExchanges(size_t distance);

  const Chain& chain_;
  const ChainUnits& units_;
  const Objective objective_;
  std::vector<size_t> free_;  // units that can run in graph mode
  int evaluations_left_;
  std::set<ModeChoice> evaluated_;
  ModeChoice best_;
  double least_ = kInfiniteSeconds;  // the objective's value for best_
};

absl::StatusOr<bool> ModeSearch::Try(const ModeChoice& choice) {
  if (evaluations_left_ <= 0 || !evaluated_.insert(choice).second) return false;
  --evaluations_left_;
  ASSIGN_OR_RETURN(const double value, objective_(Execution::Of(chain_, units_, choice)));
  if (value >= least_) return false;
  least_ = value;
  best_ = choice;
  return true;
}

absl::Status ModeSearch::TryAll() {
  for (size_t bits = 0; bits >> free_.size() == 0; ++bits) {
    ModeChoice choice(units_.size());
    for (size_t i = 0; i < free_.size(); ++i) choice[free_[i]] = (bits >> i & 1) != 0;
    RETURN_IF_ERROR(Try(choice).status());
  }
  return absl::OkStatus();
}

// Tries to leave the k units with the highest need in graph mode out of it, for k = 0, 1, 2, 4,
// ..., then refines the best k by bisection: a few units that are too large may rule out graph mode
// for all.
absl::Status ModeSearch::TryWithoutLargest() {
  std::vector<std::pair<int64_t, size_t>> needs;
  for (const size_t u : free_) needs.emplace_back(GraphNeedBytes(chain_, units_[u]), u);
  std::stable_sort(needs.begin(), needs.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  size_t best = needs.size();
  const auto consider = [&](size_t largest) -> absl::Status {
    ModeChoice choice(units_.size());
    for (size_t i = largest; i < needs.size(); ++i) choice[needs[i].second] = true;
    ASSIGN_OR_RETURN(const bool better, Try(choice));
    if (better) best = largest;
    return absl::OkStatus();
  };
  for (size_t largest = 0; largest < needs.size(); largest = std::max<size_t>(1, 2 * largest)) {
    RETURN_IF_ERROR(consider(largest));
  }
  for (size_t step = best / 2; step > 0; step /= 2) {
    const size_t middle = best;  // consider() may change `best`
    if (middle > step) RETURN_IF_ERROR(consider(middle - step));
    if (middle + step < needs.size()) RETURN_IF_ERROR(consider(middle + step));
  }
  return absl::OkStatus();
}

// Puts each run of `width` free units into one mode; true if that improves the incumbent. Width 1
// changes single units; wider runs overlap by half.
absl::StatusOr<bool> ModeSearch::ClimbRuns(size_t width) {
  bool climbed = false;
  for (size_t first = 0; first + width <= free_.size(); first += std::max<size_t>(1, width / 2)) {
    for (const bool graph : {true, false}) {
      ModeChoice choice = best_;
      for (size_t i = first; i < first + width; ++i) choice[free_[i]] = graph;
      ASSIGN_OR_RETURN(const bool better, Try(choice));
      climbed = climbed || better;
    }
  }
  return climbed;
}

// Exchanges the modes of each pair of free units `distance` apart; true if that improves the
// incumbent.
absl::StatusOr<bool> ModeSearch::ClimbExchanges(size_t distance) {
  bool climbed = false;
  for (size_t i = 0; i + distance < free_.size(); ++i) {
    const size_t one = free_[i];
    const size_t other = free_[i + distance];
    if (best_[one] == best_[other]) continue;
    ModeChoice choice = best_;
    choice[one].flip();
    choice[other].flip();
    ASSIGN_OR_RETURN(const bool better, Try(choice));
    climbed = climbed || better;
  }
  return climbed;
}

// Until no move improves the incumbent. Exchanges are many, so they are only tried when runs of no
// width help, and the climb goes back to runs after the first distance that does.
absl::Status ModeSearch::Climb() {
  for (bool climbed = true; climbed && evaluations_left_ > 0;) {
    climbed = false;
    for (size_t width = 1; width < free_.size(); width *= 2) {
      ASSIGN_OR_RETURN(const bool better, ClimbRuns(width));
      climbed = climbed || better;
    }
    for (size_t distance = 1; distance < free_.size() && !climbed; ++distance) {
      ASSIGN_OR_RETURN(climbed, ClimbExchanges(distance));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ModeChoice> ModeSearch::Run(const std::vector<ModeChoice>& starts) {
  best_ = starts.front();
  for (const ModeChoice& choice : starts) RETURN_IF_ERROR(Try(choice).status());
  constexpr size_t kMaxEnumerated = 10;  // free units of which all 2^n choices are tried
  if (free_.size() <= kMaxEnumerated && evaluations_left_ >> free_.size() > 0) {
    RETURN_IF_ERROR(TryAll());
  } else {
    RETURN_IF_ERROR(TryWithoutLargest());
    RETURN_IF_ERROR(Climb());
  }
  return std::move(best_);
}

}  // namespace

int64_t NeedBytes(const Chain& chain, const Stage& stage, int first, int last) {
  const int64_t gradients = chain.gradient_bytes(last) + chain.gradient_bytes(first - 1);
  return chain.output_bytes(first - 1) + stage.saved_bytes +
         std::max(stage.SaveOverheadBytes(0), gradients + stage.backward_overhead_bytes);
}

int64_t GraphNeedBytes(const Chain& chain, const Unit& unit) {
  return NeedBytes(chain, GraphStage(chain, unit), unit.first, unit.last);
}

absl::StatusOr<ModeChoice> SearchModes(const Instance& instance,
                                       const std::vector<ModeChoice>& starts,
                                       const SolveContext& context) {
  const Chain& chain = instance.chain();
  const std::unique_ptr<Solver> rotor = RotorFor(chain);
  const SolveContext quiet = context.Quiet();
  const auto seconds_of = [&](const Execution& execution) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(const double seconds,
                     MakespanOf(*rotor, instance.WithChain(execution.chain()), quiet));
    return seconds + execution.Entries() * chain.graph_entry_seconds;
  };
  return ModeSearch(instance, MostEvaluations(chain, 32), seconds_of).Run(starts);
}

absl::StatusOr<ModeChoice> SearchLeastModes(const Instance& instance,
                                            const std::vector<ModeChoice>& starts,
                                            const SolveContext& context) {
  const auto bytes_of = [&context](const Execution& execution) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(const RotorMinimum minimum,
                     RotorMinimum::Build(execution.chain(), Saving::kAlways, context));
    return static_cast<double>(minimum.min_bytes());
  };
  // Few evaluations for long chains: this runs before the first schedule of a solve is found.
  return ModeSearch(instance, MostEvaluations(instance.chain(), 5), bytes_of).Run(starts);
}

}  // namespace stowage
