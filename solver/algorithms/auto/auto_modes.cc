#include "solver/algorithms/auto/auto_modes.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "solver/algorithms/modes/mixed_mode.h"
#include "solver/algorithms/modes/mode_search.h"
#include "solver/algorithms/rematerialization/periodic.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/algorithms/working_bytes.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// With fewer slots Mixed Mode rounds more away than it gains.
constexpr int64_t kFewestUsefulSlots = 50;

Execution AllEager(const Chain& chain) {
  return Execution::Of(chain, std::vector<bool>(UnitsOf(chain).size(), false));
}

// Every unit in the mode in which it needs less by itself.
Execution LeastNeeds(const Chain& chain) {
  std::vector<bool> graph;
  for (const Unit& unit : UnitsOf(chain)) {
    int64_t eager = 0;
    for (int l = unit.first; l <= unit.last; ++l) {
      eager = std::max(eager, NeedOf(chain, chain.stage(l), l, l));
    }
    graph.push_back(unit.has_graph && NeedOf(chain, unit) < eager);
  }
  return Execution::Of(chain, graph);
}

std::vector<ModeChoice> ModesOfAll(const Chain& chain, const std::vector<Execution>& executions) {
  std::vector<ModeChoice> modes;
  modes.reserve(executions.size());
  for (const Execution& execution : executions) modes.push_back(ModesOf(chain, execution));
  return modes;
}

// Choices of modes that are always tried: at least one of them, or Mixed Mode, has a schedule
// wherever LeastBytes() says that there is one.
absl::StatusOr<std::vector<Execution>> Choices(const Chain& chain, const SolveContext& context) {
  std::vector<Execution> choices;
  choices.push_back(Execution::Of(chain, FastestModes(chain)));
  choices.push_back(LeastNeeds(chain));
  choices.push_back(AllEager(chain));
  ASSIGN_OR_RETURN(const ModeChoice least,
                   SearchLeastModes(chain, ModesOfAll(chain, choices), context));
  choices.push_back(Execution::Of(chain, least));
  return choices;
}

// The instance with as many slots for Mixed Mode as fit; nullopt: not enough.
std::optional<Instance> ForMixedMode(const Solver& mixed, const Instance& instance,
                                     int64_t working_bytes) {
  if (mixed.WorkingBytes(instance) <= working_bytes) return instance;
  const std::optional<int64_t> slots = MostSlotsWithin(mixed, instance, working_bytes);
  if (slots.value_or(0) < kFewestUsefulSlots) return std::nullopt;
  return instance.WithMemorySlots(*slots);
}

// The search for one budget.
class Search {
 public:
  Search(const Solver& plain, const Instance& instance, const SolveContext& context)
      : plain_(plain), chain_(instance.chain()), instance_(instance), context_(context) {}

  absl::StatusOr<std::optional<Candidate>> Run() {
    const Execution fastest = Execution::Of(chain_, FastestModes(chain_));
    if (StoreAllPeakBytes(fastest.chain()) <= instance_.platform().memory_bytes) {
      Consider({fastest.ToChain(StoreAllSchedule(fastest.chain())), "store_all", Limit::kNone, {}});
      return std::move(best_);
    }
    // What is quickly found comes first, for those who cannot wait for the rest.
    ASSIGN_OR_RETURN(std::vector<Execution> choices, Choices(chain_, context_));
    for (const Execution& choice : choices) RETURN_IF_ERROR(AskPeriodic(choice));
    constexpr size_t kShares = 7;  // of the progress
    for (Execution& choice : choices) RETURN_IF_ERROR(AskOnce(std::move(choice), kShares));
    ASSIGN_OR_RETURN(const std::optional<Schedule> mixed, AskMixedMode(ShareOf(4, kShares)));
    if (mixed.has_value()) {
      ASSIGN_OR_RETURN(Execution execution, Execution::Of(chain_, *mixed));
      RETURN_IF_ERROR(AskOnce(std::move(execution), kShares));
    }
    ASSIGN_OR_RETURN(Execution found, FindModes());
    RETURN_IF_ERROR(AskOnce(std::move(found), kShares));
    if (best_.has_value()) best_->notes = notes_;
    if (best_.has_value() && HasGraphOperations(best_->schedule) &&
        !absl::StartsWith(best_->solver, "mixed_mode")) {
      best_->notes.push_back(
          absl::StrCat("auto chose the modes that ", best_->solver, " ran with"));
    }
    return std::move(best_);
  }

 private:
  SolveContext ShareOf(size_t index, size_t count) const {
    SolveContext share = context_;
    share.lowest_bytes = INT64_MAX;
    share.improved = nullptr;
    share.progress = [this, index, count](double fraction) {
      context_.Report((static_cast<double>(index) + fraction) / static_cast<double>(count));
    };
    return share;
  }

  // Equal segments take no time to find.
  absl::Status AskPeriodic(const Execution& execution) {
    const Instance instance = instance_.WithChain(execution.chain());
    const SolveContext share = ShareOf(0, SIZE_MAX);
    ASSIGN_OR_RETURN(const auto solution, MakePeriodic()->Solve(instance, share));
    ASSIGN_OR_RETURN(const std::optional<Candidate> candidate,
                     solution->ScheduleWithin(instance.platform().memory_bytes, share));
    if (!candidate.has_value()) return absl::OkStatus();
    Consider({execution.ToChain(candidate->schedule), candidate->solver, candidate->limit, {}});
    return absl::OkStatus();
  }

  // Unless it has been.
  absl::Status AskOnce(Execution execution, size_t shares) {
    const auto same = [&execution](const Execution& other) {
      return other.numbers() == execution.numbers() && other.chain() == execution.chain();
    };
    if (std::any_of(asked_.begin(), asked_.end(), same)) return absl::OkStatus();
    asked_.push_back(std::move(execution));
    return AskPlain(asked_.back(), ShareOf(std::min(asked_.size(), shares) - 1, shares));
  }

  // Its schedule.
  absl::StatusOr<std::optional<Schedule>> AskMixedMode(const SolveContext& share) {
    const std::unique_ptr<Solver> mixed = MakeMixedMode();
    const std::optional<Instance> instance =
        ForMixedMode(*mixed, instance_, context_.working_bytes);
    if (!instance.has_value()) {
      notes_.push_back(absl::StrCat(
          "mixed_mode was left out: it would need ", FormatBytes(mixed->WorkingBytes(instance_)),
          ", and ", FormatBytes(context_.working_bytes), " are set aside for one solve"));
      return std::optional<Schedule>();
    }
    ASSIGN_OR_RETURN(const auto solution, mixed->Solve(*instance, share));
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                     solution->ScheduleWithin(instance_.platform().memory_bytes, share));
    if (!candidate.has_value()) return std::optional<Schedule>();
    Consider(*candidate);
    return std::optional<Schedule>(std::move(candidate->schedule));
  }

  // The best choice of modes that a search finds, those asked being known.
  absl::StatusOr<Execution> FindModes() const {
    const std::vector<Execution> asked(asked_.begin(), asked_.end());
    ASSIGN_OR_RETURN(const ModeChoice modes,
                     SearchModes(instance_, ModesOfAll(chain_, asked), context_));
    return Execution::Of(chain_, modes);
  }

  absl::Status AskPlain(const Execution& execution, SolveContext share) {
    const Instance instance = instance_.WithChain(execution.chain());
    share.improved = [this, &execution](const Candidate& candidate) {
      Consider({execution.ToChain(candidate.schedule), candidate.solver, candidate.limit, {}});
    };
    ASSIGN_OR_RETURN(const auto solution, plain_.Solve(instance, share));
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                     solution->ScheduleWithin(instance.platform().memory_bytes, share));
    if (!candidate.has_value()) return absl::OkStatus();
    for (std::string& note : candidate->notes) {
      if (std::count(notes_.begin(), notes_.end(), note) == 0) notes_.push_back(std::move(note));
    }
    Consider({execution.ToChain(candidate->schedule), candidate->solver, candidate->limit, {}});
    return absl::OkStatus();
  }

  void Consider(Candidate candidate) {
    const absl::StatusOr<Simulation> simulation =
        Simulate(chain_, instance_.platform(), candidate.schedule);
    assert(simulation.ok());
    if (!simulation.ok() || !simulation->feasible()) return;
    const std::tuple key(simulation->prediction.makespan_seconds,
                         simulation->prediction.peak_memory_bytes);
    if (best_.has_value() && key_ <= key) return;
    const bool faster = !best_.has_value() || std::get<0>(key) < std::get<0>(key_);
    key_ = key;
    best_ = std::move(candidate);
    // The best for some modes need not be the best of all.
    if (best_->limit != Limit::kNone || std::get<0>(key) > ComputeSeconds(chain_)) {
      best_->limit = Limit::kHeuristic;
    }
    if (faster && context_.improved) context_.improved(*best_);
  }

  const Solver& plain_;
  const Chain& chain_;
  const Instance& instance_;
  const SolveContext& context_;
  std::vector<std::string> notes_;
  std::deque<Execution> asked_;  // stays where it is
  std::optional<Candidate> best_;
  std::tuple<double, int64_t> key_;  // of the best: its makespan, then its peak
};

class ModesSolution final : public Solution {
 public:
  ModesSolution(std::shared_ptr<const Solver> plain, const Instance& instance)
      : plain_(std::move(plain)), instance_(instance) {}

  absl::Status Prepare(const SolveContext& context) {
    ASSIGN_OR_RETURN(own_, Search(*plain_, instance_, context).Run());
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const override {
    if (memory_bytes == instance_.platform().memory_bytes) return own_;
    const Instance instance = instance_.WithMemory(memory_bytes);
    return Search(*plain_, instance, context).Run();
  }
  bool solves_each_budget() const override { return true; }

 private:
  const std::shared_ptr<const Solver> plain_;
  const Instance instance_;
  std::optional<Candidate> own_;
};

class AutoOverModes final : public Solver {
 public:
  explicit AutoOverModes(std::unique_ptr<const Solver> plain) : plain_(std::move(plain)) {}

  int64_t WorkingBytes(const Instance& instance) const override {
    return plain_->WorkingBytes(Eager(instance));
  }

  int64_t WorkingBytesWithin(const Instance& instance, int64_t most_bytes) const override {
    const int64_t plain = plain_->WorkingBytesWithin(Eager(instance), most_bytes);
    if (!HasGraphMode(instance.chain())) return plain;
    const std::unique_ptr<Solver> mixed = MakeMixedMode();
    const std::optional<Instance> with_slots = ForMixedMode(*mixed, instance, most_bytes);
    if (!with_slots.has_value()) return plain;
    return std::max(plain, mixed->WorkingBytesWithin(*with_slots, most_bytes));
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    if (!HasGraphMode(instance.chain())) return plain_->LeastBytes(instance, context);
    std::optional<int64_t> least;
    const auto lower = [&least](std::optional<int64_t> bytes) {
      if (bytes.has_value()) least = std::min(least.value_or(*bytes), *bytes);
    };
    ASSIGN_OR_RETURN(const std::vector<Execution> choices, Choices(instance.chain(), context));
    for (const Execution& choice : choices) {
      ASSIGN_OR_RETURN(const std::optional<int64_t> bytes,
                       plain_->LeastBytes(instance.WithChain(choice.chain()), context));
      lower(bytes);
    }
    const std::unique_ptr<Solver> mixed = MakeMixedMode();
    if (ForMixedMode(*mixed, instance, context.working_bytes).has_value()) {
      ASSIGN_OR_RETURN(const std::optional<int64_t> bytes, mixed->LeastBytes(instance, context));
      lower(bytes);
    }
    return least;
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    if (!HasGraphMode(instance.chain())) return plain_->Solve(instance, context);
    auto solution = std::make_unique<ModesSolution>(plain_, instance);
    RETURN_IF_ERROR(solution->Prepare(context));
    context.Report(1);
    return solution;
  }

 private:
  static Instance Eager(const Instance& instance) {
    if (!HasGraphMode(instance.chain())) return instance;
    return instance.WithChain(AllEager(instance.chain()).chain());
  }

  const std::shared_ptr<const Solver> plain_;
};

}  // namespace

std::unique_ptr<Solver> MakeAutoOverModes(std::unique_ptr<const Solver> plain) {
  return std::make_unique<AutoOverModes>(std::move(plain));
}

}  // namespace stowage
