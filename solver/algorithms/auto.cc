#include "solver/algorithms/auto.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "solver/algorithms/catalog.h"
#include "solver/base/status_macros.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// With fewer, a dynamic program rounds more away than it gains.
constexpr int64_t kFewestUsefulSlots = 50;

struct Member {
  std::unique_ptr<Solver> solver;
  Instance instance;  // with as many slots as fit
};

// All other solvers, as far as `working_bytes` allows.
std::vector<Member> Members(const Instance& instance, int64_t working_bytes) {
  std::vector<Member> members;
  for (const SolverInfo& info : AllSolvers()) {
    if (absl::string_view(info.description.name) == "auto") continue;
    std::unique_ptr<Solver> solver = info.make();
    if (solver->WorkingBytes(instance) <= working_bytes) {
      members.push_back({std::move(solver), instance});
      continue;
    }
    const std::optional<int64_t> slots = MostSlotsWithin(*solver, instance, working_bytes);
    if (slots.value_or(0) < kFewestUsefulSlots) continue;
    members.push_back({std::move(solver), instance.WithMemorySlots(*slots)});
  }
  return members;
}

// The context of member `index` of `count`: an equal share of the progress.
SolveContext ShareOf(const SolveContext& context, size_t index, size_t count) {
  SolveContext share = context;
  share.progress = [&context, index, count](double fraction) {
    context.Report((static_cast<double>(index) + fraction) / static_cast<double>(count));
  };
  return share;
}

class AutoSolution final : public Solution {
 public:
  explicit AutoSolution(const Instance& instance) : instance_(instance) {}

  void Add(std::unique_ptr<const Solution> solution) { solutions_.push_back(std::move(solution)); }

  struct Measured {
    Candidate candidate;
    Prediction prediction;
  };
  absl::StatusOr<std::optional<Measured>> BestWithin(int64_t memory_bytes,
                                                     const SolveContext& context) const {
    std::optional<Measured> best;
    for (const auto& solution : solutions_) {
      ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                       solution->ScheduleWithin(memory_bytes, context));
      if (!candidate.has_value()) continue;
      const absl::StatusOr<Simulation> simulation =
          Simulate(instance_.chain(), instance_.platform(), candidate->schedule);
      if (!simulation.ok() || !simulation->feasible()) continue;
      if (!best.has_value() || Key(simulation->prediction) < Key(best->prediction)) {
        best = Measured{*std::move(candidate), simulation->prediction};
      }
    }
    return best;
  }

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const override {
    ASSIGN_OR_RETURN(std::optional<Measured> best, BestWithin(memory_bytes, context));
    if (!best.has_value()) return std::optional<Candidate>();
    best->candidate.limit = Limit::kHeuristic;  // best of the members, not of a class
    return std::move(best->candidate);
  }

 private:
  static std::pair<double, int64_t> Key(const Prediction& prediction) {
    return {prediction.makespan_seconds, prediction.peak_memory_bytes};
  }

  const Instance instance_;
  std::vector<std::unique_ptr<const Solution>> solutions_;
};

class Auto final : public Solver {
 public:
  // Members that need more than they may are left out, so this is what the least of them needs.
  int64_t WorkingBytes(const Instance& instance) const override {
    int64_t least = INT64_MAX;
    for (const Member& member : Members(instance, INT64_MAX)) {
      least = std::min(least, member.solver->WorkingBytes(member.instance));
    }
    return least;
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    std::optional<int64_t> least;
    for (const Member& member : Members(instance, context.working_bytes)) {
      ASSIGN_OR_RETURN(const std::optional<int64_t> bytes,
                       member.solver->LeastBytes(member.instance, context));
      if (bytes.has_value()) least = std::min(least.value_or(*bytes), *bytes);
    }
    return least;
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    auto solution = std::make_unique<AutoSolution>(instance);
    const std::vector<Member> members = Members(instance, context.working_bytes);
    for (size_t i = 0; i < members.size(); ++i) {
      ASSIGN_OR_RETURN(
          std::unique_ptr<const Solution> one,
          members[i].solver->Solve(members[i].instance, ShareOf(context, i, members.size())));
      solution->Add(std::move(one));
      ASSIGN_OR_RETURN(const auto best,
                       solution->BestWithin(instance.platform().memory_bytes, context));
      if (best.has_value() && best->prediction.gap <= 0) break;
    }
    return solution;
  }
};

}  // namespace

std::unique_ptr<Solver> MakeAuto() { return std::make_unique<Auto>(); }

std::optional<int64_t> MostSlotsWithin(const Solver& solver, const Instance& instance,
                                       int64_t working_bytes) {
  const auto fits = [&](int64_t slots) {
    return solver.WorkingBytes(instance.WithMemorySlots(slots)) <= working_bytes;
  };
  if (!fits(1) || fits(kMaxMemorySlots)) return std::nullopt;
  int64_t most = 1;
  int64_t too_many = kMaxMemorySlots;
  while (too_many - most > 1) {
    const int64_t middle = most + (too_many - most) / 2;
    (fits(middle) ? most : too_many) = middle;
  }
  return most;
}

}  // namespace stowage
