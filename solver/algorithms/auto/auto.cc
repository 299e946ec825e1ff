#include "solver/algorithms/auto/auto.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "solver/algorithms/auto/auto_modes.h"
#include "solver/algorithms/pofo/local_search.h"
#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/algorithms/working_bytes.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// With fewer, a dynamic program rounds more away than it gains.
constexpr int64_t kFewestUsefulSlots = 50;

struct Member {
  const SolverInfo* info = nullptr;
  std::unique_ptr<Solver> solver;
  Instance instance;  // with as many slots as fit
};

struct Membership {
  std::vector<Member> members;     // in the order in which they are asked
  std::vector<std::string> notes;  // who was left out or got fewer slots
  int64_t left_bytes = 0;          // beside all tables
};

// All other solvers that have something to say of a plain chain, as far as `working_bytes` allows.
// The tables of those who do not offload are kept, all at once; the others keep schedules only.
// They come last, unless they have no room beside the tables.
Membership Members(std::span<const SolverInfo> solvers, const Instance& instance,
                   int64_t working_bytes) {
  Membership result;
  int64_t left = working_bytes;
  int64_t most_for_a_while = 0;
  for (const SolverInfo& info : solvers) {
    const absl::string_view name = info.description.name;
    if (info.description.mixes_modes) continue;  // auto itself, and what auto_modes.h asks
    // Without a link those who offload have nothing that the others do not.
    if (info.description.offloads && !instance.platform().has_link()) continue;
    std::unique_ptr<Solver> solver = info.make();
    Instance with_slots = instance;
    const bool keeps_table = !info.description.offloads;
    const int64_t available = keeps_table ? left : working_bytes;
    const int64_t needed = solver->WorkingBytes(instance);
    if (needed > available) {
      const std::string why =
          absl::StrCat(": it would need ", FormatBytes(needed), ", and ",
                       FormatBytes(working_bytes), " are set aside for one solve");
      const std::optional<int64_t> slots = MostSlotsWithin(*solver, instance, available);
      const bool useful = slots.value_or(0) >= kFewestUsefulSlots;
      std::string note = useful
                             ? absl::StrCat(name, " was given only ", *slots, " memory slots", why)
                             : absl::StrCat(name, " was left out", why);
      // Whoever holds all of its schedules makes up for it.
      if (info.inside_of.empty()) result.notes.push_back(std::move(note));
      if (!useful) continue;
      with_slots = instance.WithMemorySlots(*slots);
    }
    const int64_t bytes = solver->WorkingBytes(with_slots);
    if (keeps_table) {
      left -= bytes;
    } else {
      most_for_a_while = std::max(most_for_a_while, bytes);
    }
    result.members.push_back({&info, std::move(solver), std::move(with_slots)});
  }
  if (most_for_a_while > left) {
    std::stable_partition(result.members.begin(), result.members.end(),
                          [](const Member& member) { return member.info->description.offloads; });
  }
  result.left_bytes = left;
  return result;
}

// The context of member `index` of `count`: an equal share of the progress.
SolveContext ShareOf(const SolveContext& context, size_t index, size_t count) {
  SolveContext share = context;
  share.progress = [&context, index, count](double fraction) {
    context.Report((static_cast<double>(index) + fraction) / static_cast<double>(count));
  };
  return share;
}

// How many operations to place in search of something better: some seconds for long chains.
int64_t EffortFor(const Chain& chain) {
  constexpr int64_t kPerStage = 150'000;
  return std::clamp<int64_t>(kPerStage * chain.length(), 300'000, 24'000'000);
}

class AutoSolution final : public Solution {
 public:
  // `spare_bytes`: what may be allocated beside the solutions.
  AutoSolution(const Instance& instance, std::vector<std::string> notes, int64_t spare_bytes)
      : instance_(instance), notes_(std::move(notes)), spare_bytes_(spare_bytes) {}

  // What it has for the instance's own budget counts at once.
  absl::Status Add(std::unique_ptr<const Solution> solution, const SolveContext& context) {
    RETURN_IF_ERROR(Ask(*solution, instance_.platform().memory_bytes, context, &own_));
    solutions_.push_back(std::move(solution));
    return absl::OkStatus();
  }

  // After the last Add().
  absl::Status Finish(const SolveContext& context) {
    return Complete(instance_.platform().memory_bytes, context, &own_);
  }

  // What the local search allocates.
  static int64_t LookAroundBytes(const Chain& chain) {
    return PartSequences::WorkingBytes(chain.length(), SequenceOptions(chain, 0, 0));
  }

  int64_t serves_from_bytes() const override {
    int64_t from = 0;
    for (const auto& solution : solutions_) from = std::max(from, solution->serves_from_bytes());
    return from;
  }

  bool solves_each_budget() const override {
    return std::any_of(solutions_.begin(), solutions_.end(),
                       [](const auto& solution) { return solution->solves_each_budget(); });
  }

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const override {
    if (memory_bytes == instance_.platform().memory_bytes) return own_.candidate;
    Best best;
    for (const auto& solution : solutions_) {
      RETURN_IF_ERROR(Ask(*solution, memory_bytes, context, &best));
    }
    RETURN_IF_ERROR(Complete(memory_bytes, context, &best));
    return std::move(best.candidate);
  }

 private:
  // The fastest so far.
  struct Best {
    std::optional<Candidate> candidate;
    // The faster one first, of equally fast ones that which promises more, then the lower peak.
    std::tuple<double, bool, int64_t> key;
  };

  absl::Status Ask(const Solution& solution, int64_t memory_bytes, const SolveContext& context,
                   Best* best) const {
    SolveContext quiet = context;
    quiet.progress = nullptr;
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                     solution.ScheduleWithin(memory_bytes, quiet));
    if (candidate.has_value()) Consider(*std::move(candidate), memory_bytes, context, best);
    return absl::OkStatus();
  }

  // What is to be done once all have been asked.
  absl::Status Complete(int64_t memory_bytes, const SolveContext& context, Best* best) const {
    if (!best->candidate.has_value()) return absl::OkStatus();
    if (instance_.platform().has_link() && memory_bytes < StoreAllPeakBytes(instance_.chain())) {
      // What is optimal without offloading need not be optimal with it.
      if (best->candidate->limit == Limit::kNone) best->candidate->limit = Limit::kHeuristic;
      RETURN_IF_ERROR(LookAround(memory_bytes, context, best));
    }
    best->candidate->notes = notes_;
    return absl::OkStatus();
  }

  void Consider(Candidate candidate, int64_t memory_bytes, const SolveContext& context,
                Best* best) const {
    const absl::StatusOr<Simulation> simulation =
        Simulate(instance_.chain(), instance_.platform(), candidate.schedule);
    if (!simulation.ok() || !simulation->feasible()) return;
    const Prediction& prediction = simulation->prediction;
    if (prediction.peak_memory_bytes > memory_bytes) return;
    const std::tuple key(prediction.makespan_seconds, candidate.limit != Limit::kNone,
                         prediction.peak_memory_bytes);
    if (best->candidate.has_value() && best->key <= key) return;
    const bool faster =
        !best->candidate.has_value() || prediction.makespan_seconds < std::get<0>(best->key);
    best->key = key;
    best->candidate = std::move(candidate);
    if (faster && context.improved) context.improved(*best->candidate);
  }

  // Local search around the best.
  absl::Status LookAround(int64_t memory_bytes, const SolveContext& context, Best* best) const {
    const Chain& chain = instance_.chain();
    const PartSequences::Options options =
        SequenceOptions(chain, memory_bytes, std::get<0>(best->key));
    std::optional<PartSequences> sequences;
    if (LookAroundBytes(chain) <= spare_bytes_) {
      ASSIGN_OR_RETURN(sequences, PartSequences::Build(chain, options, context));
    }
    ASSIGN_OR_RETURN(std::optional<Schedule> better,
                     Improve(chain, instance_.platform(), best->candidate->schedule,
                             {.memory_bytes = memory_bytes,
                              .effort = EffortFor(chain),
                              .sequences = sequences.has_value() ? &*sequences : nullptr},
                             context));
    if (!better.has_value() || better->operations.size() > kMaxOperations) return absl::OkStatus();
    Consider({*std::move(better), "auto", Limit::kHeuristic, {}}, memory_bytes, context, best);
    return absl::OkStatus();
  }

  // Nothing that is to be faster runs more forwards again than the best has to lose.
  static PartSequences::Options SequenceOptions(const Chain& chain, int64_t memory_bytes,
                                                double seconds) {
    constexpr int kStepsPerPart = 12;
    constexpr int kLongChain = 400;
    constexpr int kLongPart = 64;
    return {.memory_bytes = memory_bytes,
            .most_recompute_seconds = seconds - ComputeSeconds(chain),
            .most_steps_per_part = kStepsPerPart,
            .most_stages = chain.length() <= kLongChain ? INT_MAX : kLongPart};
  }

  const Instance instance_;
  const std::vector<std::string> notes_;
  const int64_t spare_bytes_;
  std::vector<std::unique_ptr<const Solution>> solutions_;
  Best own_;  // of the instance's budget; written by Add() and Finish()
};

class Auto final : public Solver {
 public:
  explicit Auto(std::span<const SolverInfo> solvers) : solvers_(solvers) {}

  // Members that need more than they may are left out, so this is what the least of them needs.
  int64_t WorkingBytes(const Instance& instance) const override {
    int64_t least = INT64_MAX;
    for (const Member& member : Members(solvers_, instance, INT64_MAX).members) {
      least = std::min(least, member.solver->WorkingBytes(member.instance));
    }
    return least;
  }

  int64_t WorkingBytesWithin(const Instance& instance, int64_t most_bytes) const override {
    const Membership membership = Members(solvers_, instance, most_bytes);
    int64_t beside = 0;  // the tables that stay
    for (const Member& member : membership.members) {
      beside = std::max(beside, member.solver->WorkingBytes(member.instance));
    }
    if (instance.platform().has_link()) {
      beside = std::max(beside, AutoSolution::LookAroundBytes(instance.chain()));
    }
    return most_bytes - std::max<int64_t>(0, membership.left_bytes - beside);
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    std::optional<int64_t> least;
    const std::vector<Member> members = Members(solvers_, instance, context.working_bytes).members;
    for (const Member& member : members) {
      ASSIGN_OR_RETURN(const std::optional<int64_t> bytes,
                       member.solver->LeastBytes(member.instance, context));
      if (bytes.has_value()) least = std::min(least.value_or(*bytes), *bytes);
    }
    return least;
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    // Nothing beats storing everything where it always fits.
    const int64_t lowest = std::min(context.lowest_bytes, instance.platform().memory_bytes);
    if (lowest >= StoreAllPeakBytes(instance.chain()))
      return MakeStoreAll()->Solve(instance, context);
    Membership membership = Members(solvers_, instance, context.working_bytes);
    const std::vector<Member>& members = membership.members;
    auto solution = std::make_unique<AutoSolution>(instance, std::move(membership.notes),
                                                   membership.left_bytes);
    absl::string_view optimal;                 // whose class has been searched to the end
    const size_t shares = members.size() + 1;  // the last is the local search's
    for (size_t i = 0; i < members.size(); ++i) {
      if (!optimal.empty() && members[i].info->inside_of == optimal) continue;
      ASSIGN_OR_RETURN(std::unique_ptr<const Solution> one,
                       members[i].solver->Solve(members[i].instance, ShareOf(context, i, shares)));
      if (one->exact()) optimal = members[i].info->description.name;
      RETURN_IF_ERROR(solution->Add(std::move(one), context));
    }
    RETURN_IF_ERROR(solution->Finish(ShareOf(context, members.size(), shares)));
    context.Report(1);
    return solution;
  }

 private:
  const std::span<const SolverInfo> solvers_;
};

}  // namespace

std::unique_ptr<Solver> MakeAuto(std::span<const SolverInfo> solvers) {
  return MakeAutoOverModes(std::make_unique<Auto>(solvers));
}

}  // namespace stowage
