#include "solver/algorithms/modes/mode_search.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "solver/algorithms/rematerialization/rotor.h"
#include "solver/algorithms/rematerialization/rotor_minimum.h"
#include "solver/base/status_macros.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// How many choices may be tried, but for the fewest: each takes some N^3 steps and a few
// microseconds a stage.
int MostTries(const Chain& chain, double fewest) {
  constexpr double kWork = 2e8;
  constexpr double kMost = 2000;
  const double stages = chain.length() + 1;
  return static_cast<int>(std::clamp(kWork / (stages * (stages * stages + 500)), fewest, kMost));
}

// Where it is quick the one that rounds nothing.
std::unique_ptr<Solver> RotorFor(const Chain& chain) {
  constexpr int kShort = 16;
  return chain.length() <= kShort ? MakeRotor() : MakeRotorOfSlots();
}

// Infinite where there is no schedule, or no room for finding one.
absl::StatusOr<double> MakespanOf(const Solver& solver, const Instance& instance,
                                  const SolveContext& context) {
  if (solver.WorkingBytes(instance) > context.working_bytes) return kNone;
  ASSIGN_OR_RETURN(const auto solution, solver.Solve(instance, context));
  ASSIGN_OR_RETURN(const std::optional<Candidate> candidate,
                   solution->ScheduleWithin(instance.platform().memory_bytes, context));
  if (!candidate.has_value()) return kNone;
  ASSIGN_OR_RETURN(const Simulation simulation,
                   Simulate(instance.chain(), instance.platform(), candidate->schedule));
  return simulation.prediction.makespan_seconds;
}

// What there is least of in the best choice; infinite where the choice is of no use.
using Objective = std::function<absl::StatusOr<double>(const Execution&)>;

class ModeSearch {
 public:
  ModeSearch(const Chain& chain, int most_tries, Objective objective)
      : chain_(chain),
        objective_(std::move(objective)),
        units_(UnitsOf(chain_)),
        tries_left_(most_tries) {
    for (size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].has_graph) free_.push_back(u);
    }
  }

  absl::StatusOr<ModeChoice> Run(const std::vector<ModeChoice>& known);

 private:
  // Whether it is better than the best so far; weighs nothing twice, nor more than it may.
  absl::StatusOr<bool> Try(const ModeChoice& choice);
  absl::Status TryAll();
  absl::Status TryWithoutLargest();
  absl::Status Climb();
  absl::StatusOr<bool> ClimbRuns(size_t width);
  absl::StatusOr<bool> ClimbExchanges(size_t distance);

  const Chain& chain_;
  const Objective objective_;
  const std::vector<Unit> units_;
  std::vector<size_t> free_;  // units that can run in graph mode
  int tries_left_;
  std::set<ModeChoice> tried_;
  ModeChoice best_;
  double least_ = kNone;  // of the best
};

absl::StatusOr<bool> ModeSearch::Try(const ModeChoice& choice) {
  if (tries_left_ <= 0 || !tried_.insert(choice).second) return false;
  --tries_left_;
  ASSIGN_OR_RETURN(const double value, objective_(Execution::Of(chain_, choice)));
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

// A unit that is too large in graph mode must not keep the others from it.
absl::Status ModeSearch::TryWithoutLargest() {
  std::vector<std::pair<int64_t, size_t>> needs;
  for (const size_t u : free_) needs.emplace_back(NeedOf(chain_, units_[u]), u);
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
  for (size_t step = best / 2; step > 0; step /= 2) {  // between its neighbours
    const size_t middle = best;
    if (middle > step) RETURN_IF_ERROR(consider(middle - step));
    if (middle + step < needs.size()) RETURN_IF_ERROR(consider(middle + step));
  }
  return absl::OkStatus();
}

// Whether some run of so many units is better all in one mode.
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

// Whether it is better for two units to exchange their modes.
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

absl::Status ModeSearch::Climb() {
  for (bool climbed = true; climbed && tries_left_ > 0;) {
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

absl::StatusOr<ModeChoice> ModeSearch::Run(const std::vector<ModeChoice>& known) {
  best_ = known.front();
  for (const ModeChoice& choice : known) RETURN_IF_ERROR(Try(choice).status());
  constexpr size_t kFew = 10;
  if (free_.size() <= kFew && tries_left_ >> free_.size() > 0) {
    RETURN_IF_ERROR(TryAll());
  } else {
    RETURN_IF_ERROR(TryWithoutLargest());
    RETURN_IF_ERROR(Climb());
  }
  return std::move(best_);
}

}  // namespace

ModeChoice ModesOf(const Chain& chain, const Execution& execution) {
  const int count = static_cast<int>(execution.chain().stages.size()) + 1;
  std::vector<bool> enters(chain.stages.size() + 2);  // by stage: a unit in graph mode begins
  for (int e = 1; e <= count; ++e) {
    if (execution.mode(e) == Mode::kGraph)
      enters[static_cast<size_t>(execution.unit(e).first)] = true;
  }
  ModeChoice choice;
  for (const Unit& unit : UnitsOf(chain)) choice.push_back(enters[static_cast<size_t>(unit.first)]);
  return choice;
}

int64_t NeedOf(const Chain& chain, const Stage& stage, int first, int last) {
  const int64_t gradients = chain.gradient_bytes(last) + chain.gradient_bytes(first - 1);
  return chain.output_bytes(first - 1) + stage.saved_bytes +
         std::max(stage.forward_overhead_bytes, gradients + stage.backward_overhead_bytes);
}

int64_t NeedOf(const Chain& chain, const Unit& unit) {
  return NeedOf(chain, GraphStage(chain, unit), unit.first, unit.last);
}

absl::StatusOr<ModeChoice> SearchModes(const Instance& instance,
                                       const std::vector<ModeChoice>& known,
                                       const SolveContext& context) {
  const Chain& chain = instance.chain();
  const std::unique_ptr<Solver> rotor = RotorFor(chain);
  const SolveContext quiet = context.Quiet();
  const auto seconds_of = [&](const Execution& execution) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(const double seconds,
                     MakespanOf(*rotor, instance.WithChain(execution.chain()), quiet));
    return seconds + execution.Entries() * chain.graph_entry_seconds;
  };
  return ModeSearch(chain, MostTries(chain, 32), seconds_of).Run(known);
}

absl::StatusOr<ModeChoice> SearchLeastModes(const Chain& chain,
                                            const std::vector<ModeChoice>& known,
                                            const SolveContext& context) {
  const auto bytes_of = [&context](const Execution& execution) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(const RotorMinimum minimum,
                     RotorMinimum::Build(execution.chain(), Saving::kAlways, context));
    return static_cast<double>(minimum.least_bytes());
  };
  // Somebody may be waiting for a first schedule.
  return ModeSearch(chain, MostTries(chain, 5), bytes_of).Run(known);
}

}  // namespace stowage
