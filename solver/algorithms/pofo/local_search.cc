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
constexpr double kMinGain = 1e-9;

// Simulated annealing. A state's cost is its makespan, placed and timed as a whole. bests_ are
// always feasible states, so BestSchedule() is a schedule; moves that lead to an infeasible state
// are undone.
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
    bests_ = {StateFrom(schedule)};
    return bests_[0].seconds < kInfeasible;
  }

  // A further schedule to start from, which is left out where it does not consist of parts.
  void AddStart(const Schedule& schedule) {
    if (bests_[0].state.parts.empty()) return;
    Best best = StateFrom(schedule);
    if (best.seconds < kInfeasible && !best.state.parts.empty()) bests_.push_back(std::move(best));
  }

  // Each round starts from one of the best states. Many short rounds find more than few long ones,
  // of different first temperatures; from there the temperature falls geometrically. Every other
  // round repairs moves: repairs reach states that nothing else does, and hide others.
  absl::Status Run() {
    const double last_temperature = 1e-6 * bests_[0].seconds;
    const double middle = std::max(options_.temperature * bests_[0].seconds, last_temperature);
    constexpr double kWarmth[] = {1, 0.25, 4, 0.5};
    constexpr int64_t kStepEffort = 64;  // charged for every step, so that failed moves end too
    for (int round = 0; round < options_.rounds; ++round) {
      const int64_t begin = effort_spent_;
      const int64_t share = (options_.effort - begin) / (options_.rounds - round);
      if (4 * round >= 3 * options_.rounds) KeepFastest();
      const int turn = round / static_cast<int>(bests_.size());
      best_ = static_cast<size_t>(round) % bests_.size();
      repairs_ = has_link_ && turn % 2 == 1;
      const double first_temperature = middle * kWarmth[turn / 2 % std::size(kWarmth)];
      moves_.Reset(bests_[best_].state);
      seconds_ = Evaluate();
      moves_.NoteUsed(placement_);
      while (effort_spent_ - begin < share) {
        RETURN_IF_ERROR(context_.CheckStop());
        context_.Report(static_cast<double>(effort_spent_) / static_cast<double>(options_.effort));
        const double at = static_cast<double>(effort_spent_ - begin) / static_cast<double>(share);
        Step(first_temperature * std::pow(last_temperature / first_temperature, at));
        effort_spent_ += kStepEffort;
      }
    }
    KeepFastest();
    return absl::OkStatus();
  }

  // After Run().
  double best_seconds() const { return bests_[0].seconds; }

  Schedule BestSchedule() {
    moves_.Reset(bests_[0].state);
    Evaluate();
    return placement_.ToSchedule(moves_.sequence());
  }

 private:
  static constexpr double kInfeasible = 1e300;
  struct Best {
    SearchState state;
    double seconds = 0;
  };

  Best StateFrom(const Schedule& schedule) {
    moves_.Start(schedule);
    repairs_ = has_link_;
    constexpr int kMaxRepairs = 10'000;  // of a schedule for more memory
    const double seconds = EvaluateWithRepairs(kMaxRepairs);
    return {moves_.state(), seconds};
  }

  void KeepFastest() {
    const auto fastest =
        std::min_element(bests_.begin(), bests_.end(),
                         [](const Best& a, const Best& b) { return a.seconds < b.seconds; });
    std::iter_swap(bests_.begin(), fastest);
    bests_.resize(1);
  }

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
  double EvaluateWithRepairs(int max_repairs) {
    double seconds = Evaluate();
    const bool repairs = repairs_ || (has_link_ && moves_.needs_repair());
    for (int i = 0; repairs && i < max_repairs && seconds == kInfeasible; ++i) {
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
    constexpr int kMaxRepairs = 8;
    const double seconds = EvaluateWithRepairs(kMaxRepairs);
    if (seconds > limit) {
      moves_.Undo();
      return;
    }
    seconds_ = seconds;
    moves_.NoteUsed(placement_);
    Best& best = bests_[best_];
    if (seconds < best.seconds * (1 - kMinGain)) best = {moves_.state(), seconds};
  }

  const ImproveOptions& options_;
  const SolveContext& context_;
  const bool has_link_;
  TransferPlacement placement_;
  SearchRandom random_;
  SearchMoves moves_;               // the current state
  std::vector<GapChoice> choices_;  // scratch of Evaluate()

  bool repairs_ = false;     // in the current round
  double seconds_ = 0;       // of the current state
  std::vector<Best> bests_;  // by start, until KeepFastest()
  size_t best_ = 0;          // of the current round
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
  for (const Schedule& other : options.others) annealing.AddStart(other);
  RETURN_IF_ERROR(annealing.Run());
  const bool fits =
      before->feasible() && before->prediction.peak_memory_bytes <= options.memory_bytes;
  const double worth = before->prediction.makespan_seconds * (1 - kMinGain);
  if (fits && annealing.best_seconds() >= worth) return std::optional<Schedule>();
  return annealing.BestSchedule();
}

}  // namespace stowage
