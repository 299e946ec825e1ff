// The solvers of what frameworks can express, against every plan of their class on small chains,
// each simulated. The plans are made here: nothing is shared with the solvers.
#include "solver/algorithms/flat/flat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "rapidcheck/gtest.h"
#include "solver/algorithms/flat/flat_plan.h"
#include "solver/algorithms/flat/plan_search.h"
#include "solver/algorithms/flat/priced_arcs.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/linked_chains.h"

namespace stowage {
namespace {

// By stage, from 1 on: the number of its segment, or where it is saved minus the option.
using Plan = std::vector<int>;
using Plans = std::vector<Plan>;

Schedule ScheduleOf(const Chain& chain, const Plan& plan) {
  Schedule schedule;
  const auto add = [&](OperationKind kind, int l) { schedule.operations.push_back({kind, l}); };
  const int loss = chain.length() + 1;
  for (int l = 1; l < loss; ++l) {
    const int segment = plan[static_cast<size_t>(l)];
    const bool begins = l == 1 || plan[static_cast<size_t>(l) - 1] != segment;
    add(segment <= 0 ? OperationKind::kForwardSave
        : begins     ? OperationKind::kForwardCheckpoint
                     : OperationKind::kForwardDiscard,
        l);
    schedule.operations.back().save_option = std::max(0, -segment);
  }
  add(OperationKind::kForwardSave, loss);
  add(OperationKind::kBackward, loss);
  for (int l = loss - 1; l >= 1; --l) {
    const int segment = plan[static_cast<size_t>(l)];
    const bool ends = l + 1 == loss || plan[static_cast<size_t>(l) + 1] != segment;
    if (segment > 0 && ends) {
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
      std::vector<int> choices;
      const int options = static_cast<int>(chain.stage(l).save_options.size());
      for (int k = 0; k <= options; ++k) choices.push_back(-k);
      if (!chain.stage(l).no_recompute) {
        choices.push_back(l);  // a segment that begins here
        if (plan.back() > 0) choices.push_back(plan.back());
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

// `segment_of_layer(i)`: where layer i is saved minus the option, of the stages that may run again
// and have so many; else a number that neighbours in one segment share.
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
    const int options = static_cast<int>(chain.stage(l).save_options.size());
    const bool saved = segment <= 0 || chain.stage(l).no_recompute;
    plan.push_back(saved ? (chain.stage(l).no_recompute ? 0 : -std::min(-segment, options))
                         : segment * 100 + cuts);
  }
  return plan;
}

Plans EveryChoiceOfLayers(const Chain& chain) {
  const int layers = LayerOfStages(chain).back() + 1;
  Plans plans;
  for (int chosen = 0; chosen < 1 << layers; ++chosen) {
    const Plan plan =
        PlanOfLayers(chain, [&](int i) { return (chosen >> i & 1) == 0 ? 0 : i + 1; });
    Plans by_options = {plan};
    for (int l = 1; l <= chain.length(); ++l) {
      if ((chosen >> LayerOfStages(chain)[static_cast<size_t>(l)] & 1) != 0) continue;
      const size_t count = by_options.size();
      for (int k = 1; k <= static_cast<int>(chain.stage(l).save_options.size()); ++k) {
        for (size_t i = 0; i < count; ++i) {
          by_options.push_back(by_options[i]);
          by_options.back()[static_cast<size_t>(l)] = -k;
        }
      }
    }
    plans.insert(plans.end(), by_options.begin(), by_options.end());
  }
  return plans;
}

// `segment(i, count)` as in PlanOfLayers(), for each count up to the number of layers; also with
// each of so many options in place of segments.
template <typename Segment>
Plans EveryCount(const Chain& chain, int options, Segment segment) {
  Plans plans = {Plan(static_cast<size_t>(chain.length()) + 1, 0)};
  for (int count = 1; count <= LayerOfStages(chain).back() + 1; ++count) {
    plans.push_back(PlanOfLayers(chain, [&](int i) { return segment(i, count); }));
    for (int k = 1; k <= options; ++k) {
      plans.push_back(PlanOfLayers(chain, [&](int i) { return segment(i, count) == 0 ? 0 : -k; }));
    }
  }
  return plans;
}

constexpr int kMostOptions = 2;  // of a stage of SmallOptionChains

Plans PlansOf(const std::string& solver, const Chain& chain) {
  if (solver == "flat") return EveryPlan(chain);
  if (solver == "per_layer") return EveryChoiceOfLayers(chain);
  if (solver == "uniform") {
    return EveryCount(chain, 0, [](int i, int count) { return i / count + 1; });
  }
  if (solver == "block") {
    return EveryCount(chain, kMostOptions, [](int i, int count) { return i < count ? i + 1 : 0; });
  }
  return EveryCount(chain, kMostOptions,
                    [](int i, int count) { return i % count == count - 1 ? i + 1 : 0; });
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

void SetGroups(Chain* chain) {
  for (Stage& stage : chain->stages) {
    stage.fusion_group = *rc::gen::element<std::string>("", "a", "a", "b");
  }
}

// With ties, zeros, no_recompute, replays, unread inputs, graph costs, and groups of any length.
Chain SomeChain(int max_stages) {
  Chain chain = *rc::gen::oneOf(SmallChains(max_stages), SmallReplayChains(max_stages),
                                SmallUnreadChains(max_stages), SmallModeChains(max_stages));
  const auto has_graph = [](const Stage& stage) { return stage.graph.has_value(); };
  if (std::any_of(chain.stages.begin(), chain.stages.end(), has_graph)) return chain;
  SetGroups(&chain);
  return chain;
}

// The same without graph costs, and with save_options at most stages, the loss too.
Chain SomeChainWithWays() {
  Chain chain = *SmallOptionChains(5);
  SetGroups(&chain);
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
  const auto& operations = answer->schedule.operations;
  RC_CLASSIFY(std::any_of(operations.begin(), operations.end(),
                          [](const Operation& operation) { return operation.save_option > 0; }),
              "saves in part");
  const auto pieces = PiecesOf(chain, answer->schedule);
  RC_ASSERT(pieces.ok());
  RC_ASSERT(FlatSchedule(chain, SplitAtNoRecompute(chain, *pieces)) == answer->schedule);
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

RC_GTEST_PROP(FlatWays, HaveTheMakespanOfTheFastestOfAllPlans, ()) {
  ExpectTheBestOfItsClass("flat", SomeChainWithWays());
}
RC_GTEST_PROP(FlatWays, HaveThatOfTheFastestChoicePerLayer, ()) {
  ExpectTheBestOfItsClass("per_layer", SomeChainWithWays());
}
RC_GTEST_PROP(FlatWays, HaveThatOfTheFastestNumber, ()) {
  const Chain chain = SomeChainWithWays();
  for (const char* solver : {"uniform", "block", "every_nth"}) {
    ExpectTheBestOfItsClass(solver, chain);
  }
}
RC_GTEST_PROP(PerLayer, HasItOfUnlikeStagesToo, ()) {
  ExpectTheBestOfItsClass("per_layer",
                          UnlikeStages(*rc::gen::inRange(1, 12), *rc::gen::arbitrary<uint32_t>()));
}

// --- With a link ------------------------------------------------------------------------------

// A plan and, by stage, the number of the piece that is copied as a whole, from 0 on.
struct PiecedPlan {
  Plan plan;
  std::vector<int> pieces;
};

// What the piece of a stage leaves there: whether value l waits for the piece's backward.
bool IsLeft(const PiecedPlan& pieced, int l) {
  const auto at = static_cast<size_t>(l);
  if (pieced.plan[at] <= 0) return true;
  return at + 1 == pieced.plan.size() || pieced.plan[at + 1] != pieced.plan[at];
}

// `offloaded` has a bit a piece. Everything is copied after the piece's forwards, gone `ahead`
// pieces later, and called back `ahead` + 1 pieces before its backward.
Schedule WithCopies(const Chain& chain, const PiecedPlan& pieced, int offloaded, int ahead) {
  const int loss = chain.length() + 1;
  const int last = pieced.pieces.back();
  Schedule schedule;
  const auto copy = [&](OperationKind kind, int piece) {
    if (piece < 0 || piece > last || (offloaded >> piece & 1) == 0) return;
    for (int l = 1; l < loss; ++l) {
      if (pieced.pieces[static_cast<size_t>(l)] == piece && IsLeft(pieced, l)) {
        schedule.operations.push_back({kind, l});
      }
    }
  };
  const auto piece_of = [&](int l) {
    return l == loss ? last + 1 : pieced.pieces[static_cast<size_t>(l)];
  };
  const Schedule plain = ScheduleOf(chain, pieced.plan);
  int running = last + 2;  // the piece whose backward runs
  for (size_t i = 0; i < plain.operations.size(); ++i) {
    const Operation& operation = plain.operations[i];
    const int piece = piece_of(operation.stage);
    const bool first_sweep = static_cast<int>(i) < loss;
    if (first_sweep && operation.stage == loss) {
      for (int one = last + 1 - ahead; one <= last; ++one) copy(OperationKind::kRelease, one);
    }
    if (!first_sweep && piece < running) {
      const int from = running == last + 2 ? last : piece - ahead - 1;
      for (int one = from; one >= piece - ahead - 1; --one) copy(OperationKind::kPrefetch, one);
      running = piece;
    }
    schedule.operations.push_back(operation);
    if (first_sweep && operation.stage < loss && piece_of(operation.stage + 1) != piece) {
      copy(OperationKind::kRelease, piece - ahead);
      copy(OperationKind::kOffload, piece);
    }
  }
  return schedule;
}

std::vector<PiecedPlan> PiecedPlansOf(const std::string& solver, const Chain& chain) {
  std::vector<PiecedPlan> pieced;
  for (const Plan& plan : PlansOf(solver, chain)) {
    std::vector<int> pieces = LayerOfStages(chain);
    if (solver == "flat") {
      for (size_t l = 1; l < plan.size(); ++l) {
        const bool same = l > 1 && plan[l] > 0 && plan[l] == plan[l - 1];
        pieces[l] = pieces[l - 1] + (same ? 0 : 1);
      }
    }
    pieced.push_back({plan, pieces});
  }
  return pieced;
}

bool MayOffload(const Chain& chain, const PiecedPlan& pieced, int offloaded) {
  if ((offloaded >> pieced.pieces.back() & 1) != 0) return false;
  for (int l = 1; l <= chain.length(); ++l) {
    const bool copied = (offloaded >> pieced.pieces[static_cast<size_t>(l)] & 1) != 0;
    if (copied && IsLeft(pieced, l) && chain.stage(l).no_offload) return false;
  }
  return true;
}

Best BestWithCopies(const Chain& chain, const Platform& platform, const std::string& solver) {
  Best best;
  for (const PiecedPlan& pieced : PiecedPlansOf(solver, chain)) {
    const int count = pieced.pieces.back() + 1;
    for (int offloaded = 0; offloaded < 1 << count; ++offloaded) {
      if (!MayOffload(chain, pieced, offloaded)) continue;
      for (int ahead = 1; ahead <= std::min(count, 8); ++ahead) {
        const auto simulation =
            Simulate(chain, platform, WithCopies(chain, pieced, offloaded, ahead));
        RC_ASSERT(simulation.ok());
        const Prediction& prediction = simulation->prediction;
        const bool host = platform.host_memory_bytes == 0 ||
                          prediction.peak_host_bytes <= platform.host_memory_bytes;
        if (host) best.least_bytes = std::min(best.least_bytes, prediction.peak_memory_bytes);
        if (!simulation->feasible()) continue;
        const double seconds = prediction.makespan_seconds;
        best.seconds = std::min(best.seconds.value_or(seconds), seconds);
      }
    }
  }
  return best;
}

// Half of them share the link, a third has a latency. Most budgets are in the middle of the range:
// below, plans without nesting do not fit.
Platform SomeLink(const Chain& chain) {
  Platform platform = DrawLinkedPlatform(chain);
  const int64_t low = FloorOfMemory(chain).bytes;
  const int64_t high = std::max(low, StoreAllPeakBytes(chain));
  platform.memory_bytes =
      std::max(platform.memory_bytes, DrawBetween((2 * low + high) / 3, (low + 2 * high) / 3));
  platform.half_duplex = *rc::gen::arbitrary<bool>();
  if (DrawBetween(0, 2) == 0) platform.transfer_latency_seconds = 0.5;
  return platform;
}

// Without options: plans that offload save in the stages' own ways.
Chain SomeLinkedChain(int max_stages) {
  Chain chain = *rc::gen::arbitrary<bool>() ? DrawLinkedChain(max_stages) : SomeChain(max_stages);
  chain.ClearSaveOptions();
  // Where nothing may run again the link is short, and its prices decide.
  const int64_t once = *rc::gen::element<int64_t>(1, 1, 10);
  for (Stage& stage : chain.stages) {
    if (!stage.graph.has_value() && DrawBetween(1, 10) <= once) {
      stage.no_recompute = true;
      stage.replay_seconds.reset();
    }
  }
  return chain;
}

void ExpectTheBestWithCopies(const std::string& solver, const Chain& chain,
                             const Platform& platform) {
  const Best best = BestWithCopies(chain, platform, solver);
  const absl::StatusOr<Answer> answer = AnswerRequest({chain, platform, solver, {}}, {});
  RC_ASSERT(answer.ok());
  RC_ASSERT(answer->rejected.empty());
  const bool limited = platform.host_memory_bytes > 0;
  if (!limited) RC_ASSERT(answer->minimum_memory_bytes == best.least_bytes);
  RC_ASSERT(answer->minimum_memory_bytes >= best.least_bytes);
  const bool infeasible = answer->outcome == Outcome::kInfeasible;
  RC_ASSERT(infeasible == (answer->minimum_memory_bytes > platform.memory_bytes));
  RC_CLASSIFY(infeasible, "infeasible");
  if (infeasible) return;
  RC_ASSERT(best.seconds.has_value());
  RC_ASSERT(answer->outcome == Outcome::kOptimal);
  RC_ASSERT(answer->prediction.peak_memory_bytes <= platform.memory_bytes);
  RC_ASSERT(answer->prediction.makespan_seconds >= *best.seconds * (1 - 2e-9));
  RC_ASSERT(answer->prediction.makespan_seconds <= *best.seconds * (1 + 2e-9));
  RC_CLASSIFY(answer->prediction.peak_host_bytes > 0, "offloads");
  RC_CLASSIFY(answer->prediction.recompute_seconds > 0, "recomputes");
}

RC_GTEST_PROP(Flat, HasTheMakespanOfTheFastestPlanWithCopies, ()) {
  const Chain chain = SomeLinkedChain(5);
  ExpectTheBestWithCopies("flat", chain, SomeLink(chain));
}
RC_GTEST_PROP(PerLayer, HasTheMakespanOfTheFastestChoiceWithCopies, ()) {
  const Chain chain = SomeLinkedChain(6);
  ExpectTheBestWithCopies("per_layer", chain, SomeLink(chain));
}
RC_GTEST_PROP(Flat, KeepsTheLimitOfTheHost, ()) {
  const Chain chain = SomeLinkedChain(4);
  Platform platform = SomeLink(chain);
  platform.host_memory_bytes = DrawBetween(1, 40);
  for (const char* solver : {"flat", "per_layer"}) {
    ExpectTheBestWithCopies(solver, chain, platform);
  }
}

// With a link, plans that copy save each stage in its own way, and plans that do not in any: the
// faster one is found.
RC_GTEST_PROP(FlatWays, AreThoseOfPlansWithoutCopies, ()) {
  const Chain chain = SomeChainWithWays();
  Chain own_ways = chain;
  own_ways.ClearSaveOptions();
  const Platform platform = SomeLink(chain);
  for (const char* solver : {"flat", "per_layer"}) {
    const auto both = AnswerRequest({chain, platform, solver, {}}, {});
    const auto copying = AnswerRequest({own_ways, platform, solver, {}}, {});
    const auto in_part = AnswerRequest({chain, Memory(platform.memory_bytes), solver, {}}, {});
    RC_ASSERT(both.ok() && copying.ok() && in_part.ok());
    RC_ASSERT(both->minimum_memory_bytes ==
              std::min(copying->minimum_memory_bytes, in_part->minimum_memory_bytes));
    double best = std::numeric_limits<double>::infinity();
    for (const auto* one : {&copying, &in_part}) {
      if ((*one)->outcome == Outcome::kInfeasible) continue;
      best = std::min(best, (*one)->prediction.makespan_seconds);
    }
    RC_ASSERT((both->outcome == Outcome::kInfeasible) == std::isinf(best));
    if (std::isinf(best)) continue;
    RC_ASSERT(both->prediction.makespan_seconds <= best * (1 + 1e-9));
    const bool saves_in_part = std::ranges::any_of(
        both->schedule.operations, [](const Operation& o) { return o.save_option > 0; });
    RC_CLASSIFY(saves_in_part, "saved in part");
  }
}

// What prunes and proves: at any prices no plan is faster.
RC_GTEST_PROP(PricedArcs, AreALowerBoundAtAnyPrices, ()) {
  const Chain chain = SomeLinkedChain(4);
  Platform platform = SomeLink(chain);
  const CopyPrices prices{static_cast<double>(DrawBetween(0, 4)) / 4,
                          static_cast<double>(DrawBetween(0, 4)) / 4};
  const Best best = BestWithCopies(chain, platform, "flat");
  if (!best.seconds.has_value()) return;
  const std::unique_ptr<const PlanArcs> arcs = ArcsOfStages(chain, chain.length());
  const PricedArcs priced(*arcs, platform, prices);
  const auto found = FindFastestPlan(priced, platform.memory_bytes, {}, {});
  RC_ASSERT(found.ok() && found->has_value());
  double forwards = 0;
  double backwards = chain.loss.backward_seconds;
  for (const Stage& stage : chain.stages) {
    forwards += stage.forward_seconds;
    backwards += stage.backward_seconds;
  }
  const double bound = (1 - prices.offload) * forwards + chain.loss.forward_seconds +
                       (1 - prices.prefetch) * backwards +
                       static_cast<double>((*found)->least_ticks) * priced.seconds_per_tick();
  RC_ASSERT(bound <= *best.seconds * (1 + 1e-9));
  RC_CLASSIFY(bound >= *best.seconds * (1 - 1e-9), "tight");
}

// Far beyond what branch and bound ends on: never over the budget, never slower than without the
// link, and copies pay. A plan that is not proved says by how much it may be beaten.
TEST(Flat, OffloadsWithinTheBudgetOnLongChains) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    const Chain chain = UnlikeStages(40 + static_cast<int>(seed) * 10, seed);
    const int64_t low = FloorOfMemory(chain).bytes;
    Platform platform = Memory(low + (StoreAllPeakBytes(chain) - low) / 10 * (seed + 2));
    for (const char* solver : {"flat", "per_layer"}) {
      SCOPED_TRACE(solver);
      platform.offload_bytes_per_second = 0;
      const auto plain = AnswerRequest({chain, platform, solver, {}}, {});
      platform.offload_bytes_per_second = 3;
      platform.half_duplex = seed % 2 == 0;
      const auto linked = AnswerRequest({chain, platform, solver, {}}, {});
      ASSERT_TRUE(plain.ok());
      ASSERT_TRUE(linked.ok());
      ASSERT_NE(linked->outcome, Outcome::kInfeasible) << seed;
      EXPECT_LE(linked->prediction.peak_memory_bytes, platform.memory_bytes) << seed;
      EXPECT_GT(linked->prediction.peak_host_bytes, 0) << seed;
      EXPECT_LE(linked->minimum_memory_bytes, plain->minimum_memory_bytes) << seed;
      if (plain->outcome == Outcome::kInfeasible) continue;
      EXPECT_LT(linked->prediction.makespan_seconds, plain->prediction.makespan_seconds) << seed;
      EXPECT_EQ(linked->outcome == Outcome::kOptimal, linked->explanation.notes.empty()) << seed;
    }
  }
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
  const auto save = [&](int l) {
    const Stage& stage = chain.stage(l);
    return stage.saved_bytes + stage.save_overhead_bytes.value_or(stage.forward_overhead_bytes);
  };
  const auto saved = [&](int l) { return std::max(save(l), backward(l)); };
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
        again = std::max(again, held + save(t));
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
