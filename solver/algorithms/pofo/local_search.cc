#include "solver/algorithms/pofo/local_search.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "solver/algorithms/pofo/search_moves.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/base/status_macros.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// Share of a makespan: smaller differences come from the order of additions.
constexpr double kLeastGain = 1e-9;

// Simulated annealing. A state's cost is its makespan, placed and timed as a whole. best_ is always
// a feasible state, so BestSchedule() is a schedule; moves that lead to an infeasible state are
// undone.
class Annealing {
 public:
  Annealing(const Chain& chain, const Platform& platform, const ImproveOptions& options,
            const SolveContext& context)
      : options_(options),
        context_(context),
        has_link_(platform.has_link()),
        placement_(chain, platform),
        moves_(chain, platform, options.sequences, &random_) {}

  // False when the schedule's own transfers, placed by the rules of transfer_placement.h, do not
  // fit, and repairs do not help.
  bool Start(const Schedule& schedule) {
    moves_.Start(schedule);
    repairs_ = has_link_;
    constexpr int kMostRepairs = 10'000;  // of a schedule for more memory
    seconds_ = EvaluateWithRepairs(kMostRepairs);
    best_seconds_ = seconds_;
    best_ = moves_.state();
    return seconds_ < kInfeasible;
  }

  // Each round starts from the best state. Many short rounds find more than few long ones, of
  // different first temperatures; from there the temperature falls geometrically. Every other round
  // repairs moves: repairs reach states that nothing else does, and hide others.
  absl::Status Run() {
    const double last_temperature = 1e-6 * best_seconds_;
    const double middle = std::max(options_.temperature * best_seconds_, last_temperature);
    constexpr double kWarmth[] = {1, 0.25, 4, 0.5};
    constexpr int64_t kStepEffort = 64;  // charged for every step, so that failed moves end too
    for (int round = 0; round < options_.rounds; ++round) {
      const int64_t begin = effort_spent_;
      const int64_t share = (options_.effort - begin) / (options_.rounds - round);
      repairs_ = has_link_ && round % 2 == 1;
      const double first_temperature = middle * kWarmth[round / 2 % std::size(kWarmth)];
      moves_.Reset(best_);
      seconds_ = Evaluate();
      while (effort_spent_ - begin < share) {
        RETURN_IF_ERROR(context_.CheckStop());
        context_.Report(static_cast<double>(effort_spent_) / static_cast<double>(options_.effort));
        const double at = static_cast<double>(effort_spent_ - begin) / static_cast<double>(share);
        Step(first_temperature * std::pow(last_temperature / first_temperature, at));
        effort_spent_ += kStepEffort;
      }
    }
    return absl::OkStatus();
  }

  double best_seconds() const { return best_seconds_; }

  Schedule BestSchedule() {
    moves_.Reset(best_);
    Evaluate();
    return placement_.ToSchedule(moves_.sequence());
  }

 private:
  static constexpr double kInfeasible = 1e300;

  // The makespan of the current state; kInfeasible when it does not fit.
  double Evaluate() {
    const ComputeSequence& sequence = moves_.sequence();
    moves_.FillChoices(&choices_);
    const std::optional<double> seconds =
        placement_.Place(sequence, choices_, options_.memory_bytes);
    // Effort is counted in operations. A step of the placement's search for prefetches takes far
    // less time than an operation, but there may be many more of them.
    constexpr int64_t kWalkStepsPerOperation = 16;
    effort_spent_ +=
        std::max<int64_t>(sequence.size(), placement_.walked() / kWalkStepsPerOperation);
    return seconds.value_or(kInfeasible);
  }

  // The same, after offloading further values wherever memory is short.
  double EvaluateWithRepairs(int most_repairs) {
    double seconds = Evaluate();
    for (int i = 0; repairs_ && i < most_repairs && seconds == kInfeasible; ++i) {
      const TransferPlacement::Shortage shortage = placement_.shortage();
      if (context_.stop.stop_requested()) break;
      if (shortage.operation < 0 || !moves_.Free(shortage.operation, shortage.bytes)) break;
      seconds = Evaluate();
    }
    return seconds;
  }

  // Tries one move: accepts it if it is no slower, else with probability
  // exp(-difference / temperature).
  void Step(double temperature) {
    // Drawn first: moves that compute for longer need not be placed.
    const double limit = seconds_ + temperature * -std::log(random_.Fraction());
    if (!moves_.TryMove(limit)) return;
    constexpr int kMostRepairs = 8;
    const double seconds = EvaluateWithRepairs(kMostRepairs);
    if (seconds > limit) {
      moves_.Undo();
      return;
    }
    seconds_ = seconds;
    if (seconds < best_seconds_ * (1 - kLeastGain)) {
      best_seconds_ = seconds;
      best_ = moves_.state();
    }
  }

  const ImproveOptions& options_;
  const SolveContext& context_;
  const bool has_link_;
  TransferPlacement placement_;
  SearchRandom random_;
  SearchMoves moves_;               // the current state
  std::vector<GapChoice> choices_;  // scratch of Evaluate()

  bool repairs_ = false;  // in the current round
  double seconds_ = 0;    // of the current state
  SearchState best_;
  double best_seconds_ = 0;
  int64_t effort_spent_ = 0;
};

}  // namespace

absl::StatusOr<std::optional<Schedule>> Improve(const Chain& chain, const Platform& platform,
                                                const Schedule& schedule,
                                                const ImproveOptions& options,
                                                const SolveContext& context) {
  const absl::StatusOr<Simulation> before = Simulate(chain, platform, schedule);
  if (!before.ok()) return std::optional<Schedule>();
  Annealing annealing(chain, platform, options, context);
  if (!annealing.Start(schedule)) return std::optional<Schedule>();
  RETURN_IF_ERROR(annealing.Run());
  const bool fits =
      before->feasible() && before->prediction.peak_memory_bytes <= options.memory_bytes;
  const double worth = before->prediction.makespan_seconds * (1 - kLeastGain);
  if (fits && annealing.best_seconds() >= worth) return std::optional<Schedule>();
  return annealing.BestSchedule();
}

}  // namespace stowage
