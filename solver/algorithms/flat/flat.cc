#include "solver/algorithms/flat/flat.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "solver/algorithms/by_budget.h"
#include "solver/algorithms/flat/flat_plan.h"
#include "solver/algorithms/flat/layers.h"
#include "solver/algorithms/flat/offload_search.h"
#include "solver/algorithms/flat/plan_arcs.h"
#include "solver/algorithms/flat/plan_search.h"
#include "solver/algorithms/flat/remaining_time.h"
#include "solver/base/status_macros.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

// The arcs of a chain, as a solver of one class sees them, and those of plans that offload.
struct PlanClass {
  const char* solver;
  std::unique_ptr<const PlanArcs> (*arcs)(const Chain& chain);
  std::unique_ptr<const PlanArcs> (*offloads)(const Chain& chain);
  std::vector<std::unique_ptr<const PlanArcs>> (*narrower)(const Chain& chain);
  int (*positions)(const Chain& chain);
};

int LongestSegment(const Chain& chain) {
  const int stages = chain.length();
  return stages <= kMaxStagesOfAnySegment ? stages : kMaxSegments / stages;
}

int LongestOfOffloads(const Chain& chain) {
  return std::min(chain.length(), std::max(1, kMaxSegmentsOfOffloads / chain.length()));
}

std::vector<std::unique_ptr<const PlanArcs>> ShortSegments(const Chain& chain) {
  std::vector<std::unique_ptr<const PlanArcs>> arcs;
  for (const int longest : {1, 3}) {
    if (longest < LongestOfOffloads(chain)) arcs.push_back(ArcsOfStages(chain, longest));
  }
  return arcs;
}

std::unique_ptr<const PlanArcs> ArcsOfItsLayers(const Chain& chain) {
  return ArcsOfLayers(chain, LayersOf(ChainUnits(chain)));
}

constexpr PlanClass kFlat = {
    "flat", [](const Chain& chain) { return ArcsOfStages(chain, LongestSegment(chain)); },
    [](const Chain& chain) { return ArcsOfStages(chain, LongestOfOffloads(chain)); }, ShortSegments,
    [](const Chain& chain) { return chain.length(); }};

constexpr PlanClass kPerLayer = {
    "per_layer", ArcsOfItsLayers, ArcsOfItsLayers,
    [](const Chain&) { return std::vector<std::unique_ptr<const PlanArcs>>(); },
    [](const Chain& chain) {
      return chain.has_save_options() ? chain.length()
                                      : static_cast<int>(LayersOf(ChainUnits(chain)).size());
    }};

double SecondsOf(const Chain& chain, const PlanArcs& arcs, const FoundPlan& found) {
  return EagerSeconds(chain) + static_cast<double>(found.ticks) * arcs.seconds_per_tick();
}

// Plans that offload save each stage in its own way.
Chain InOwnWays(Chain chain) {
  chain.ClearSaveOptions();
  return chain;
}

// Which plans were not looked at, if any.
std::vector<std::string> NotesOf(const PlanClass& plans, const Chain& chain, const PlanArcs& arcs,
                                 const FoundPlan& found) {
  std::vector<std::string> notes;
  if (found.ticks > found.least_ticks) {
    const double tick = arcs.seconds_per_tick();
    const double faster =
        static_cast<double>(found.ticks - found.least_ticks) * tick / SecondsOf(chain, arcs, found);
    notes.push_back(absl::StrFormat(
        "%s rounded to end in time: no plan of its kind is more than %.2g %% faster", plans.solver,
        100 * faster));
  }
  if (plans.solver == kFlat.solver && LongestSegment(chain) < chain.length()) {
    notes.push_back(absl::StrCat("of chains of more than ", kMaxStagesOfAnySegment,
                                 " stages flat knows segments of at most ", LongestSegment(chain),
                                 " stages"));
  }
  return notes;
}

Candidate ToCandidate(const PlanClass& plans, const Chain& chain, const PlanArcs& arcs,
                      const FoundPlan& found) {
  Candidate candidate{FlatSchedule(chain, SplitAtNoRecompute(chain, found.pieces)), plans.solver,
                      Guarantee::kOptimal, NotesOf(plans, chain, arcs, found)};
  if (!candidate.notes.empty()) candidate.guarantee = Guarantee::kUpToRounding;
  return candidate;
}

std::vector<std::string> NotesOf(const PlanClass& plans, const Chain& chain,
                                 const FoundOffload& found) {
  std::vector<std::string> notes;
  if (found.seconds > found.least_seconds) {
    const double faster = (found.seconds - found.least_seconds) / found.seconds;
    notes.push_back(
        absl::StrFormat("%s searched for copies: no plan of its kind is more than %.2g %% faster",
                        plans.solver, 100 * faster));
  }
  if (plans.solver == kFlat.solver && LongestOfOffloads(chain) < chain.length()) {
    notes.push_back(absl::StrCat("of chains of ", chain.length(),
                                 " stages flat knows plans that offload with segments of at most ",
                                 LongestOfOffloads(chain), " stages"));
  }
  return notes;
}

Candidate ToCandidate(const PlanClass& plans, const Chain& chain, const FoundOffload& found) {
  Candidate candidate{OffloadSchedule(chain, found.plan), plans.solver, Guarantee::kOptimal,
                      NotesOf(plans, chain, found)};
  if (!candidate.notes.empty()) candidate.guarantee = Guarantee::kHeuristic;
  return candidate;
}

class PlanSolver final : public Solver {
 public:
  explicit PlanSolver(const PlanClass& plans) : plans_(plans) {}

  int64_t WorkingBytes(const Instance& instance) const override { return Bytes(instance, 0); }

  int64_t WorkingBytesWithin(const Instance& instance, int64_t max_bytes) const override {
    return std::min(Bytes(instance, max_bytes), max_bytes);
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    if (!instance.platform().has_link()) {
      const std::unique_ptr<const PlanArcs> arcs = plans_.arcs(instance.chain());
      ASSIGN_OR_RETURN(const int64_t least, LeastBytesOf(*arcs, context));
      return least;
    }
    const Chain chain = InOwnWays(instance.chain());
    const std::unique_ptr<const PlanArcs> arcs = plans_.arcs(chain);
    const std::unique_ptr<const PlanArcs> offloads = plans_.offloads(chain);
    ASSIGN_OR_RETURN(
        const int64_t least,
        LeastOffloadBytes({chain, instance.platform(), *arcs, *offloads, {}, 0}, context));
    if (!instance.chain().has_save_options()) return least;
    ASSIGN_OR_RETURN(const int64_t in_part, LeastBytesOf(*plans_.arcs(instance.chain()), context));
    return std::min(least, in_part);
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    if (instance.platform().has_link()) return SolveWithLink(instance, context);
    // Copies: the solution may outlive the solve.
    const std::shared_ptr<const PlanArcs> arcs = plans_.arcs(instance.chain());
    const int64_t own_bytes = instance.platform().memory_bytes;
    const auto solve = [plans = plans_, arcs, chain = instance.chain(), own_bytes](
                           int64_t memory_bytes,
                           const SolveContext& query) -> absl::StatusOr<std::optional<Candidate>> {
      const auto improved = [&](const FoundPlan& found) {
        query.improved(ToCandidate(plans, chain, *arcs, found));
      };
      const bool reports = query.improved && memory_bytes == own_bytes;
      ASSIGN_OR_RETURN(
          const std::optional<FoundPlan> found,
          FindFastestPlan(*arcs, memory_bytes, query,
                          reports ? improved : std::function<void(const FoundPlan&)>()));
      if (!found.has_value()) return std::optional<Candidate>();
      return ToCandidate(plans, chain, *arcs, *found);
    };
    return SolveByBudget(own_bytes, solve, context);
  }

 private:
  int64_t Bytes(const Instance& instance, int64_t max_bytes) const {
    const int positions = plans_.positions(instance.chain());
    if (!instance.platform().has_link()) return FindFastestPlanBytes(positions, max_bytes);
    const int64_t arcs = kMaxSegmentsOfOffloads + 2 * int64_t{positions};
    // One after the other.
    return std::max(
        FindFastestOffloadBytes(positions, arcs, max_bytes),
        instance.chain().has_save_options() ? FindFastestPlanBytes(positions, max_bytes) : 0);
  }

  absl::StatusOr<std::unique_ptr<const Solution>> SolveWithLink(const Instance& instance,
                                                                const SolveContext& context) const {
    const Chain own_ways = InOwnWays(instance.chain());
    const std::shared_ptr<const PlanArcs> arcs = plans_.arcs(own_ways);
    const std::shared_ptr<const PlanArcs> offloads = plans_.offloads(own_ways);
    const auto narrower = std::make_shared<const std::vector<std::unique_ptr<const PlanArcs>>>(
        plans_.narrower(own_ways));
    // Of plans that copy nothing, which save stages in any way; null: there is one way.
    const std::shared_ptr<const PlanArcs> in_part =
        instance.chain().has_save_options() ? plans_.arcs(instance.chain()) : nullptr;
    const int64_t own_bytes = instance.platform().memory_bytes;
    const auto solve = [plans = plans_, arcs, offloads, narrower, in_part, chain = own_ways,
                        whole = instance.chain(), platform = instance.platform()](
                           int64_t memory_bytes,
                           const SolveContext& query) -> absl::StatusOr<std::optional<Candidate>> {
      const auto improved = [&](const FoundOffload& found) {
        query.improved(ToCandidate(plans, chain, found));
      };
      const bool reports = query.improved && memory_bytes == platform.memory_bytes;
      ASSIGN_OR_RETURN(
          const std::optional<FoundOffload> found,
          FindFastestOffload({chain, platform, *arcs, *offloads, *narrower, memory_bytes}, query,
                             reports ? improved : std::function<void(const FoundOffload&)>()));
      if (in_part != nullptr) {
        ASSIGN_OR_RETURN(const std::optional<FoundPlan> other,
                         FindFastestPlan(*in_part, memory_bytes, query, {}));
        const bool is_faster =
            other.has_value() &&
            (!found.has_value() || SecondsOf(whole, *in_part, *other) < found->seconds);
        if (is_faster) return ToCandidate(plans, whole, *in_part, *other);
      }
      if (!found.has_value()) return std::optional<Candidate>();
      return ToCandidate(plans, chain, *found);
    };
    return SolveByBudget(own_bytes, solve, context);
  }

  const PlanClass plans_;
};

}  // namespace

std::unique_ptr<Solver> MakeFlat() { return std::make_unique<PlanSolver>(kFlat); }

std::unique_ptr<Solver> MakePerLayer() { return std::make_unique<PlanSolver>(kPerLayer); }

}  // namespace stowage
