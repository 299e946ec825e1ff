#include "solver/algorithms/auto/auto_modes.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "solver/algorithms/auto/incumbent.h"
#include "solver/algorithms/auto/select_solvers.h"
#include "solver/algorithms/by_budget.h"
#include "solver/algorithms/modes/by_graph_mode.h"
#include "solver/algorithms/modes/mixed_mode.h"
#include "solver/algorithms/modes/mode_search.h"
#include "solver/algorithms/rematerialization/periodic.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/algorithms/working_bytes.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

Execution Fastest(const Instance& instance) {
  return Execution::Of(instance.chain(), instance.units(),
                       FastestModes(instance.chain(), instance.units()));
}

Execution AllEager(const Instance& instance) {
  return Execution::Of(instance.chain(), instance.units(),
                       std::vector<bool>(instance.units().size(), false));
}

// Every unit in the mode in which it needs less by itself.
Execution LeastNeeds(const Instance& instance) {
  const Chain& chain = instance.chain();
  std::vector<bool> graph;
  for (const Unit& unit : instance.units()) {
    int64_t eager = 0;
    for (int l = unit.first; l <= unit.last; ++l) {
      eager = std::max(eager, NeedBytes(chain, chain.stage(l), l, l));
    }
    graph.push_back(unit.has_graph && GraphNeedBytes(chain, unit) < eager);
  }
  return Execution::Of(chain, instance.units(), graph);
}

template <typename Executions>
std::vector<ModeChoice> ModesOf(const Executions& executions) {
  std::vector<ModeChoice> modes;
  modes.reserve(executions.size());
  for (const Execution& execution : executions) modes.push_back(execution.graph());
  return modes;
}

// Choices 1 to 4 of the header. LeastBytes() is the least of theirs and Mixed Mode's, so at that
// budget at least one of them, or Mixed Mode, has a schedule.
absl::StatusOr<std::vector<Execution>> FixedChoices(const Instance& instance,
                                                    const SolveContext& context) {
  std::vector<Execution> choices;
  choices.push_back(Fastest(instance));
  choices.push_back(LeastNeeds(instance));
  choices.push_back(AllEager(instance));
  ASSIGN_OR_RETURN(const ModeChoice least, SearchLeastModes(instance, ModesOf(choices), context));
  choices.push_back(Execution::Of(instance.chain(), instance.units(), least));
  return choices;
}

// The instance with as many memory slots for Mixed Mode as fit; nullopt: too few do.
std::optional<Instance> ForMixedMode(const Solver& mixed, const Instance& instance,
                                     int64_t working_bytes) {
  if (mixed.WorkingBytes(instance) <= working_bytes) return instance;
  const std::optional<int64_t> slots = MostSlotsWithin(mixed, instance, working_bytes);
  if (slots.value_or(0) < kMinUsefulSlots) return std::nullopt;
  return instance.WithMemorySlots(*slots);
}

// Solves one budget, that of the instance.
class ModeChoiceSolve {
 public:
  ModeChoiceSolve(const Solver& plain, const Instance& instance, const SolveContext& context)
      : plain_(plain),
        instance_(instance),
        context_(context),
        best_(instance, instance.platform().memory_bytes, GuaranteeScope::kOneChoiceOfModes) {}

  absl::StatusOr<std::optional<Candidate>> Run() {
    // Storing everything in the fastest modes is optimal where it fits.
    const Execution fastest = Fastest(instance_);
    if (StoreAllPeakBytes(fastest.chain()) <= instance_.platform().memory_bytes) {
      Consider({fastest.ToChain(StoreAllSchedule(fastest.chain())),
                "store_all",
                Guarantee::kOptimal,
                {}});
      return best_.WithNotes({});
    }
    // Periodic schedules take no time to find and come first, so that a request with a time budget
    // has an answer early.
    ASSIGN_OR_RETURN(std::vector<Execution> choices, FixedChoices(instance_, context_));
    for (const Execution& choice : choices) RETURN_IF_ERROR(TryPeriodic(choice));
    for (Execution& choice : choices) RETURN_IF_ERROR(TryNewExecution(std::move(choice)));
    ASSIGN_OR_RETURN(const std::optional<Schedule> mixed, TryMixedMode(ShareOf(4)));
    if (mixed.has_value()) {
      ASSIGN_OR_RETURN(Execution execution,
                       Execution::Of(instance_.chain(), instance_.units(), *mixed));
      RETURN_IF_ERROR(TryNewExecution(std::move(execution)));
    }
    ASSIGN_OR_RETURN(Execution found, SearchFastestModes());
    RETURN_IF_ERROR(TryNewExecution(std::move(found)));
    return Annotated();
  }

 private:
  // Who chose the modes of a candidate.
  enum class ModesFrom { kAuto, kMixedMode };

  // Equal shares of the progress: four fixed choices, Mixed Mode, its modes, the search's modes.
  static constexpr size_t kShares = 7;

  // For one of the solves: it reports progress only, and answers this budget only.
  SolveContext ShareOf(size_t index) const {
    SolveContext share = context_.Quiet();
    share.progress = context_.ShareOfProgress(index, kShares);
    share.phases = context_.phases;
    return share;
  }

  // The best periodic schedule of one choice of modes.
  absl::Status TryPeriodic(const Execution& execution) {
    const Instance instance = instance_.WithChain(execution.chain());
    // Reports next to nothing: all of the progress belongs to what follows.
    SolveContext share = context_.Quiet();
    share.progress = context_.ShareOfProgress(0, SIZE_MAX);
    ASSIGN_OR_RETURN(const auto solution, MakePeriodic()->Solve(instance, share));
    ASSIGN_OR_RETURN(const std::optional<Candidate> candidate,
                     solution->ScheduleWithin(instance.platform().memory_bytes, share));
    if (!candidate.has_value()) return absl::OkStatus();
    Consider({execution.ToChain(candidate->schedule), candidate->solver, candidate->guarantee, {}});
    return absl::OkStatus();
  }

  // Solves the plain chain of `execution`, unless an equal one has been solved before. Where both
  // modes of a unit cost the same, equal plain chains may enter graph mode more or less often.
  absl::Status TryNewExecution(Execution execution) {
    const auto same = [&execution](const Execution& other) {
      return other.numbers() == execution.numbers() && other.chain() == execution.chain() &&
             other.Entries() <= execution.Entries();
    };
    if (std::any_of(tried_.begin(), tried_.end(), same)) return absl::OkStatus();
    tried_.push_back(std::move(execution));
    return TryPlain(tried_.back(), ShareOf(std::min(tried_.size(), kShares) - 1));
  }

  // Returns Mixed Mode's schedule, for its modes; nullopt where it has none.
  absl::StatusOr<std::optional<Schedule>> TryMixedMode(const SolveContext& share) {
    const std::unique_ptr<Solver> mixed = MakeMixedMode();
    const std::optional<Instance> instance =
        ForMixedMode(*mixed, instance_, context_.working_bytes);
    if (!instance.has_value()) {
      notes_.push_back(absl::StrCat(
          "mixed_mode was left out: it would need ", FormatBytes(mixed->WorkingBytes(instance_)),
          ", and ", FormatBytes(context_.working_bytes), " are set aside for one solve"));
      return std::optional<Schedule>();
    }
    ImprovingPhase phase(context_, "mixed_mode", best_);
    ASSIGN_OR_RETURN(const auto solution, mixed->Solve(*instance, share));
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                     solution->ScheduleWithin(instance_.platform().memory_bytes, share));
    if (candidate.has_value()) Consider(*candidate, ModesFrom::kMixedMode);
    phase.End();
    if (!candidate.has_value()) return std::optional<Schedule>();
    return std::optional<Schedule>(std::move(candidate->schedule));
  }

  // Choice 6 of the header; the search starts from the choices tried so far.
  absl::StatusOr<Execution> SearchFastestModes() const {
    ImprovingPhase phase(context_, kModeSearchPhase, best_);
    ASSIGN_OR_RETURN(const ModeChoice modes, SearchModes(instance_, ModesOf(tried_), context_));
    phase.End();
    return Execution::Of(instance_.chain(), instance_.units(), modes);
  }

  // Runs plain `auto` on the plain chain of `execution`; its intermediate schedules count, too.
  absl::Status TryPlain(const Execution& execution, SolveContext share) {
    const Instance instance = instance_.WithChain(execution.chain());
    share.improved = [this, &execution](const Candidate& candidate) {
      Consider({execution.ToChain(candidate.schedule), candidate.solver, candidate.guarantee, {}});
    };
    ASSIGN_OR_RETURN(const auto solution, plain_.Solve(instance, share));
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                     solution->ScheduleWithin(instance.platform().memory_bytes, share));
    if (!candidate.has_value()) return absl::OkStatus();
    for (std::string& note : candidate->notes) {
      if (std::count(notes_.begin(), notes_.end(), note) == 0) notes_.push_back(std::move(note));
    }
    Consider({execution.ToChain(candidate->schedule), candidate->solver, candidate->guarantee, {}});
    return absl::OkStatus();
  }

  void Consider(Candidate candidate, ModesFrom modes_from = ModesFrom::kAuto) {
    if (best_.Consider(std::move(candidate), context_)) modes_from_ = modes_from;
  }

  // The incumbent with the notes of all solves.
  std::optional<Candidate> Annotated() const {
    if (!best_.found()) return std::nullopt;
    std::vector<std::string> notes = notes_;
    if (HasGraphOperations(best_.candidate().schedule) && modes_from_ == ModesFrom::kAuto) {
      notes.push_back(
          absl::StrCat("auto chose the modes that ", best_.candidate().solver, " ran with"));
    }
    return best_.WithNotes(notes);
  }

  const Solver& plain_;
  const Instance& instance_;
  const SolveContext& context_;
  std::vector<std::string> notes_;  // without duplicates
  std::deque<Execution> tried_;  // a deque, since TryPlain() holds a reference to its last element
  Incumbent best_;
  ModesFrom modes_from_ = ModesFrom::kAuto;  // of best_
};

// Of chains with a graph mode.
class AutoOverModes final : public Solver {
 public:
  explicit AutoOverModes(std::shared_ptr<const Solver> plain) : plain_(std::move(plain)) {}

  int64_t WorkingBytes(const Instance& instance) const override {
    return plain_->WorkingBytes(Eager(instance));
  }

  int64_t WorkingBytesWithin(const Instance& instance, int64_t max_bytes) const override {
    const int64_t plain = plain_->WorkingBytesWithin(Eager(instance), max_bytes);
    const std::unique_ptr<Solver> mixed = MakeMixedMode();
    const std::optional<Instance> with_slots = ForMixedMode(*mixed, instance, max_bytes);
    if (!with_slots.has_value()) return plain;
    return std::max(plain, mixed->WorkingBytesWithin(*with_slots, max_bytes));
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    std::optional<int64_t> least;
    const auto lower = [&least](std::optional<int64_t> bytes) {
      if (bytes.has_value()) least = std::min(least.value_or(*bytes), *bytes);
    };
    ASSIGN_OR_RETURN(const std::vector<Execution> choices, FixedChoices(instance, context));
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
    const int64_t own_bytes = instance.platform().memory_bytes;
    // Copies: the solution may outlive the solve and its solver.
    const auto solve = [plain = plain_, instance, own_bytes](int64_t memory_bytes,
                                                             const SolveContext& query) {
      if (memory_bytes == own_bytes) return ModeChoiceSolve(*plain, instance, query).Run();
      return ModeChoiceSolve(*plain, instance.WithMemory(memory_bytes), query).Run();
    };
    return SolveByBudget(own_bytes, solve, context);
  }

 private:
  static Instance Eager(const Instance& instance) {
    return instance.WithChain(AllEager(instance).chain());
  }

  const std::shared_ptr<const Solver> plain_;
};

}  // namespace

std::unique_ptr<Solver> MakeAutoOverModes(std::shared_ptr<const Solver> plain) {
  return MakeByGraphMode(plain, std::make_unique<AutoOverModes>(plain));
}

}  // namespace stowage
