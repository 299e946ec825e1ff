// The solvers of what frameworks can express, against every plan of their class on small chains,
// each simulated. The plans are made here: nothing is shared with the solvers.
#include "solver/algorithms/flat/flat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "rapidcheck/gtest.h"
#include "solver/algorithms/flat/flat_plan.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

// By stage, from 1 on: 0 where it is saved, else the number of its segment.
using Plan = std::vector<int>;
using Plans = std::vector<Plan>;

Schedule ScheduleOf(const Chain& chain, const Plan& plan) {
  Schedule schedule;
  const auto add = [&](OperationKind kind, int l) { schedule.operations.push_back({kind, l}); };
  const int loss = chain.length() + 1;
  for (int l = 1; l < loss; ++l) {
    const int segment = plan[static_cast<size_t>(l)];
    const bool begins = l == 1 || plan[static_cast<size_t>(l) - 1] != segment;
    add(segment == 0 ? OperationKind::kForwardSave
        : begins     ? OperationKind::kForwardCheckpoint
                     : OperationKind::kForwardDiscard,
        l);
  }
  add(OperationKind::kForwardSave, loss);
  add(OperationKind::kBackward, loss);
  for (int l = loss - 1; l >= 1; --l) {
    const int segment = plan[static_cast<size_t>(l)];
    const bool ends = l + 1 == loss || plan[static_cast<size_t>(l) + 1] != segment;
    if (segment != 0 && ends) {
      for (int again = 1; again <= l; ++again) {
        if (plan[static_cast<size_t>(again)] == segment) add(OperationKind::kForwardSave, again);
      }
    }
    add(OperationKind::kBackward, l);
  }
  return schedule;
}

Plans EveryPlan(const Chain& chain) {
  Plans plans = {{0}};
  for (int l = 1; l <= chain.length(); ++l) {
    Plans longer;
    for (const Plan& plan : plans) {
      std::vector<int> choices = {0};
      if (!chain.stage(l).no_recompute) {
        choices.push_back(l);  // a segment that begins here
        if (plan.back() != 0) choices.push_back(plan.back());
      }
      for (const int choice : choices) {
        longer.push_back(plan);
        longer.back().push_back(choice);
      }
    }
    plans = longer;
  }
  return plans;
}

// By stage, the number of its layer, from 0 on.
std::vector<int> LayerOfStages(const Chain& chain) {
  std::vector<int> layers = {-1};
  for (int l = 1; l <= chain.length(); ++l) {
    const std::string& group = chain.stage(l).fusion_group;
    const bool same = l > 1 && !group.empty() && group == chain.stage(l - 1).fusion_group;
    layers.push_back(layers.back() + (same ? 0 : 1));
  }
  return layers;
}

// `segment_of_layer(i)`: 0 where layer i is saved, else a number that neighbours in one segment
// share.
template <typename SegmentOfLayer>
Plan PlanOfLayers(const Chain& chain, SegmentOfLayer segment_of_layer) {
  const std::vector<int> layers = LayerOfStages(chain);
  Plan plan = {0};
  for (int l = 1; l <= chain.length(); ++l) {
    // A stage that may run only once ends a segment: another number follows it.
    const int cuts =
        static_cast<int>(std::count_if(chain.stages.begin(), chain.stages.begin() + l,
                                       [](const Stage& stage) { return stage.no_recompute; }));
    const int segment = segment_of_layer(layers[static_cast<size_t>(l)]);
    plan.push_back(segment == 0 || chain.stage(l).no_recompute ? 0 : segment * 100 + cuts);
  }
  return plan;
}

Plans EveryChoiceOfLayers(const Chain& chain) {
  const int layers = LayerOfStages(chain).back() + 1;
  Plans plans;
  for (int chosen = 0; chosen < 1 << layers; ++chosen) {
    plans.push_back(PlanOfLayers(chain, [&](int i) { return (chosen >> i & 1) == 0 ? 0 : i + 1; }));
  }
  return plans;
}

// `segment(i, count)` as in PlanOfLayers(), for each count up to the number of layers.
template <typename Segment>
Plans EveryCount(const Chain& chain, Segment segment) {
  Plans plans = {Plan(static_cast<size_t>(chain.length()) + 1, 0)};
  for (int count = 1; count <= LayerOfStages(chain).back() + 1; ++count) {
    plans.push_back(PlanOfLayers(chain, [&](int i) { return segment(i, count); }));
  }
  return plans;
}

Plans PlansOf(const std::string& solver, const Chain& chain) {
  if (solver == "flat") return EveryPlan(chain);
  if (solver == "per_layer") return EveryChoiceOfLayers(chain);
  if (solver == "uniform") {
    return EveryCount(chain, [](int i, int count) { return i / count + 1; });
  }
  if (solver == "block") {
    return EveryCount(chain, [](int i, int count) { return i < count ? i + 1 : 0; });
  }
  return EveryCount(chain, [](int i, int count) { return i % count == count - 1 ? i + 1 : 0; });
}

struct Best {
  std::optional<double> seconds;  // of the plans within the budget
  int64_t least_bytes = INT64_MAX;
};

Best BestOf(const Chain& chain, const Plans& plans, int64_t budget) {
  Best best;
  for (const Plan& plan : plans) {
    const auto simulation = Simulate(chain, Memory(INT64_MAX), ScheduleOf(chain, plan));
    RC_ASSERT(simulation.ok());
    const Prediction& prediction = simulation->prediction;
    best.least_bytes = std::min(best.least_bytes, prediction.peak_memory_bytes);
    if (prediction.peak_memory_bytes > budget) continue;
    const double seconds = prediction.makespan_seconds;
    best.seconds = std::min(best.seconds.value_or(seconds), seconds);
  }
  return best;
}

// With ties, zeros, no_recompute, replays, unread inputs, graph costs, and groups of any length.
Chain SomeChain(int max_stages) {
  Chain chain = *rc::gen::oneOf(SmallChains(max_stages), SmallReplayChains(max_stages),
                                SmallUnreadChains(max_stages), SmallModeChains(max_stages));
  const auto has_graph = [](const Stage& stage) { return stage.graph.has_value(); };
  if (std::any_of(chain.stages.begin(), chain.stages.end(), has_graph)) return chain;
  for (Stage& stage : chain.stages) {
    stage.fusion_group = *rc::gen::element<std::string>("", "a", "a", "b");
  }
  return chain;
}

// Stages that are all different, so that hardly any plan is dominated and searches have to round.
Chain UnlikeStages(int stages, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t end) { return static_cast<int64_t>(random()) % end; };
  Chain chain;
  chain.input_bytes = below(1'000'000);
  for (int l = 1; l <= stages; ++l) {
    Stage stage;
    stage.forward_seconds = static_cast<double>(1 + below(1'000'000));
    stage.backward_seconds = 2 * stage.forward_seconds;
    stage.output_bytes = below(1'000'000);
    stage.saved_bytes = stage.output_bytes + below(3'000'000);
    stage.backward_overhead_bytes = below(500'000);
    if (below(3) == 0) stage.replay_seconds = static_cast<double>(below(2)) + 1;
    stage.no_recompute = !stage.replay_seconds.has_value() && below(20) == 0;
    chain.stages.push_back(stage);
  }
  return chain;
}

// From just below the memory floor to just above the peak of storing everything.
int64_t SomeBudget(const Chain& chain) {
  const int64_t least = std::max<int64_t>(0, FloorOfMemory(chain).bytes - 1);
  const int64_t most = std::max(least, StoreAllPeakBytes(chain));
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, most + 2));
}

void ExpectTheBestOfItsClass(const std::string& solver, const Chain& chain) {
  const int64_t budget = SomeBudget(chain);
  const Best best = BestOf(chain, PlansOf(solver, chain), budget);
  const absl::StatusOr<Answer> answer = AnswerRequest({chain, Memory(budget), solver, {}}, {});
  RC_ASSERT(answer.ok());
  RC_ASSERT(answer->rejected.empty());
  RC_ASSERT(answer->minimum_memory_bytes == best.least_bytes);
  RC_ASSERT((answer->outcome == Outcome::kInfeasible) == !best.seconds.has_value());
  RC_CLASSIFY(!best.seconds.has_value(), "infeasible");
  if (!best.seconds.has_value()) return;
  RC_ASSERT(answer->solver == solver);
  RC_ASSERT(answer->outcome == Outcome::kOptimal);
  RC_ASSERT(answer->prediction.makespan_seconds == *best.seconds);
  RC_ASSERT(answer->prediction.peak_memory_bytes <= budget);
  RC_CLASSIFY(answer->prediction.recompute_seconds > 0, "recomputes");
  RC_ASSERT(PiecesOf(chain, answer->schedule).ok());
}

RC_GTEST_PROP(Flat, HasTheMakespanOfTheFastestOfAllPlans, ()) {
  ExpectTheBestOfItsClass("flat", SomeChain(7));
}
RC_GTEST_PROP(PerLayer, HasTheMakespanOfTheFastestChoice, ()) {
  ExpectTheBestOfItsClass("per_layer", SomeChain(8));
}
RC_GTEST_PROP(Uniform, HasTheMakespanOfTheFastestCount, ()) {
  ExpectTheBestOfItsClass("uniform", SomeChain(8));
}
RC_GTEST_PROP(Block, HasTheMakespanOfTheFastestCount, ()) {
  ExpectTheBestOfItsClass("block", SomeChain(8));
}
RC_GTEST_PROP(EveryNth, HasTheMakespanOfTheFastestCount, ()) {
  ExpectTheBestOfItsClass("every_nth", SomeChain(8));
}

RC_GTEST_PROP(PerLayer, HasItOfUnlikeStagesToo, ()) {
  ExpectTheBestOfItsClass("per_layer",
                          UnlikeStages(*rc::gen::inRange(1, 12), *rc::gen::arbitrary<uint32_t>()));
}

// The same recurrence as the solver's, without bounds and without rounding: by stage, the least
// seconds that are recomputed up to it, by the bytes that the device keeps there.
std::optional<double> RecomputedByTheTextbook(const Chain& chain, int64_t budget) {
  const int loss = chain.length() + 1;
  std::vector<std::map<int64_t, double>> fronts(static_cast<size_t>(loss) + 1);
  const auto add = [&](int l, int64_t kept, double seconds) {
    std::map<int64_t, double>& front = fronts[static_cast<size_t>(l)];
    auto at = front.upper_bound(kept);
    if (at != front.begin() && std::prev(at)->second <= seconds) return;
    while (at != front.end() && at->second >= seconds) at = front.erase(at);
    front[kept] = seconds;
  };
  const auto backward = [&](int l) {
    return chain.saved_bytes(l) + chain.gradient_bytes(l) + chain.gradient_bytes(l - 1) +
           chain.stage(l).backward_overhead_bytes;
  };
  const auto saved = [&](int l) {
    return std::max(chain.saved_bytes(l) + chain.stage(l).forward_overhead_bytes, backward(l));
  };
  add(1, chain.input_bytes, 0);
  for (int s = 1; s < loss; ++s) {
    for (const auto& [kept, seconds] : fronts[static_cast<size_t>(s)]) {
      if (kept + saved(s) <= budget) add(s + 1, kept + chain.saved_bytes(s), seconds);
      int64_t held = 0;  // saved bytes of the segment so far
      int64_t need = 0;  // but for the gradient that waits while it runs again
      int64_t again = 0;
      double before = 0;
      for (int t = s; t < loss && !chain.stage(t).no_recompute; ++t) {
        const int64_t input = t == s ? 0 : chain.output_bytes(t - 1);
        const int64_t overhead = chain.stage(t).forward_overhead_bytes;
        need = std::max({need, input + chain.output_bytes(t) + overhead, held + backward(t)});
        again = std::max(again, held + chain.saved_bytes(t) + overhead);
        held += chain.saved_bytes(t);
        if (kept + std::max(need, again + chain.gradient_bytes(t)) <= budget) {
          add(t + 1, kept + chain.output_bytes(t),
              seconds + before + chain.stage(t).ReplaySeconds());
        }
        before += chain.stage(t).forward_seconds;
      }
    }
  }
  std::optional<double> best;
  for (const auto& [kept, seconds] : fronts[static_cast<size_t>(loss)]) {
    if (kept + saved(loss) <= budget) best = seconds;  // they fall
  }
  return best;
}

// Of so many unlike stages fronts are longer than the solver's first rounds take, and its bound has
// more corners than it keeps.
TEST(Flat, AgreesWithATextbookOnLongChains) {
  int feasible = 0;
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    const Chain chain = UnlikeStages(40 + static_cast<int>(seed) * 5, seed);
    const int64_t low = FloorOfMemory(chain).bytes;
    const int64_t budget = low + (StoreAllPeakBytes(chain) - low) / 25 * seed;
    const auto answer = AnswerRequest({chain, Memory(budget), "flat", {}}, {});
    const std::optional<double> best = RecomputedByTheTextbook(chain, budget);
    ASSERT_TRUE(answer.ok());
    ASSERT_EQ(answer->outcome == Outcome::kInfeasible, !best.has_value()) << seed;
    if (!best.has_value()) continue;
    ++feasible;
    EXPECT_EQ(answer->outcome, Outcome::kOptimal) << seed;
    EXPECT_DOUBLE_EQ(answer->prediction.makespan_seconds, ComputeSeconds(chain) + *best) << seed;
  }
  EXPECT_GE(feasible, 20);
}

// Sums of sizes may come close to 2^62, and so may what one operation needs.
TEST(Flat, SolvesTheLargestSizes) {
  for (const int64_t saved : {int64_t{3'000'000'000'000'000'000}, (int64_t{1} << 62) - 9}) {
    Chain chain = EqualChain(1);
    chain.input_bytes = 1;
    chain.input_gradient_bytes = 1;
    chain.stages[0].output_bytes = 1;
    chain.stages[0].gradient_bytes = 1;
    chain.stages[0].saved_bytes = saved;
    chain.stages[0].forward_overhead_bytes = 0;
    chain.stages[0].backward_overhead_bytes = 0;
    chain.loss = {};
    chain.loss.saved_bytes = 1;
    const int64_t high = StoreAllPeakBytes(chain);
    for (const char* solver : {"flat", "per_layer"}) {
      SCOPED_TRACE(solver);
      const auto fits = AnswerRequest({chain, Memory(high), solver, {}}, {});
      ASSERT_TRUE(fits.ok()) << fits.status();
      EXPECT_EQ(fits->outcome, Outcome::kOptimal);
      for (const int64_t bytes : {high - 1, high - 100'000'000'000'000'000, int64_t{1}}) {
        const auto none = AnswerRequest({chain, Memory(bytes), solver, {}}, {});
        ASSERT_TRUE(none.ok()) << none.status();
        EXPECT_EQ(none->outcome, Outcome::kInfeasible);
        EXPECT_EQ(none->minimum_memory_bytes, high);
      }
    }
  }
}

}  // namespace
}  // namespace stowage
