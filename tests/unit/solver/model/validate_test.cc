#include "solver/model/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "solver/solve/request_violations.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

auto Names(const char* field, const char* problem) {
  return AllOf(Field(&FieldViolation::field, field),
               Field(&FieldViolation::problem, HasSubstr(problem)));
}

TEST(Violations, AreNoneForASoundChainAndPlatform) {
  EXPECT_THAT(Violations(EqualChain(5)), IsEmpty());
  EXPECT_THAT(Violations(Memory(0)), IsEmpty());
}

TEST(Violations, NameEveryFieldAtOnce) {
  Chain chain = EqualChain(4);
  chain.input_bytes = -1;
  chain.stages[0].forward_seconds = -1;
  chain.stages[1].backward_seconds = std::nan("");
  chain.stages[2].saved_bytes = 5;
  chain.stages[3].backward_overhead_bytes = -7;
  chain.loss.forward_seconds = std::numeric_limits<double>::infinity();
  EXPECT_THAT(Violations(chain),
              ElementsAre(Names("chain.input_bytes", "is -1"),
                          Names("chain.stages[0].forward_seconds", "is -1"),
                          Names("chain.stages[1].backward_seconds", "is nan"),
                          Names("chain.stages[2].saved_bytes", "less than output_bytes 10"),
                          Names("chain.stages[3].backward_overhead_bytes", "is -7"),
                          Names("chain.loss.forward_seconds", "is inf")));
}

TEST(Violations, OfReplaysNameTheField) {
  Chain chain = EqualChain(4);
  chain.stages[0].replay_seconds = 1;
  EXPECT_THAT(Violations(chain), IsEmpty());
  chain.stages[0].replay_seconds = 1.5;
  chain.stages[1].replay_seconds = -1;
  chain.stages[2].replay_seconds = 0;
  chain.stages[2].no_recompute = true;
  chain.loss.replay_seconds = 0;
  EXPECT_THAT(Violations(chain),
              ElementsAre(Names("chain.stages[0].replay_seconds", "more than forward_seconds 1"),
                          Names("chain.stages[1].replay_seconds", "is -1"),
                          Names("chain.stages[2].replay_seconds", "so is no_recompute"),
                          Names("chain.loss.replay_seconds", "the loss runs once")));
  Chain graph = EqualChain(4);
  graph.stages[3].replay_seconds = 1;
  graph.stages[1].graph = GraphCosts{1, 2, 30, 0, 0};
  EXPECT_THAT(Violations(graph),
              ElementsAre(Names("chain.stages[3].replay_seconds", "chain.stages[1].graph is too")));
}

TEST(Violations, OfSaveOverheadsNameTheLeastThatIsPossible) {
  Chain chain = EqualChain(4);  // output 10 bytes, saved 30
  chain.stages[0].forward_overhead_bytes = 25;
  chain.stages[0].save_overhead_bytes = 5;
  chain.stages[0].save_options = {{"", 12, 3, 0, 23}, {"", 10, 3, 0}};
  chain.stages[1].save_overhead_bytes = 0;
  EXPECT_THAT(Violations(chain), IsEmpty());
  chain.stages[0].save_overhead_bytes = 4;
  chain.stages[0].save_options[0].save_overhead_bytes = 22;
  chain.stages[1].save_overhead_bytes = -1;
  chain.stages[2].save_overhead_bytes = 0;
  chain.stages[2].forward_overhead_bytes = INT64_MAX;
  EXPECT_THAT(
      Violations(chain),
      UnorderedElementsAre(
          Names("chain.stages[0].save_overhead_bytes", "is 4, so that a forward that saves"),
          Names("chain.stages[0].save_options[0].save_overhead_bytes", "at least 23"),
          Names("chain.stages[1].save_overhead_bytes", "is -1"),
          Names("chain.stages[2].forward_overhead_bytes", "2^62")));
  Chain graph = EqualChain(4);
  graph.stages[3].save_overhead_bytes = 0;
  graph.stages[1].graph = GraphCosts{1, 2, 30, 0, 0};
  EXPECT_THAT(Violations(graph), ElementsAre(Names("chain.stages[3].save_overhead_bytes",
                                                   "chain.stages[1].graph is too")));
}

TEST(Violations, OfSaveOptionsNameTheFieldAndTheRemedy) {
  Chain chain = EqualChain(3);  // output 10 bytes, saved 30, backward 2 s
  chain.stages[0].save_options = {{"all of it", 30, 2, 5}, {"none", 10, 3, 0}};
  chain.loss.save_options.resize(1);
  EXPECT_THAT(Violations(chain), IsEmpty());
  chain.stages[0].save_options = {{"", 9, 1.5, -1}, {"", 31, 1e10, 0}};
  chain.stages[1].save_options.assign(6, {"", 20, 2, 0});
  chain.stages[2].save_options = {{"", 20, 2, 0, 100, {"mm", "", ""}, {""}}};
  EXPECT_THAT(
      Violations(chain),
      ElementsAre(Names("chain.stages[0].save_options[0].backward_overhead_bytes", "is -1"),
                  Names("chain.stages[0].save_options[0].saved_bytes", "less than output_bytes 10"),
                  Names("chain.stages[0].save_options[0].backward_seconds",
                        "is 1.5, less than the stage's 2; make the way of the quickest backward"),
                  Names("chain.stages[0].save_options[1].backward_seconds", "is 1e+10"),
                  Names("chain.stages[0].save_options[1].saved_bytes",
                        "is 31, more than the stage's 30; make the way that saves the most"),
                  Names("chain.stages[1].save_options", "has 6 entries; at most 5"),
                  Names("chain.stages[2].save_options[0].kept[1]", "is empty; leave it out"),
                  Names("chain.stages[2].save_options[0].rerun[0]", "is empty; leave it out")));
  chain = EqualChain(3);
  for (Stage& stage : chain.stages) {
    stage.saved_bytes = kMaxTotalBytes / 8;
    stage.save_options.assign(2, {"", kMaxTotalBytes / 8, 2, 0});
  }
  EXPECT_THAT(Violations(chain), ElementsAre(Names("chain.stages[2].save_options[0].saved_bytes",
                                                   "2^62 bytes or more")));
  Chain graph = EqualChain(4);
  graph.stages[3].save_options = {{"", 10, 3, 0}};
  graph.stages[1].graph = GraphCosts{1, 2, 30, 0, 0};
  EXPECT_THAT(Violations(graph),
              ElementsAre(Names("chain.stages[3].save_options", "chain.stages[1].graph is too")));
}

// EqualChain(4) with a group of stages 2 and 3.
Chain GroupedChain() {
  Chain chain = EqualChain(4);
  for (const size_t i : {1, 2}) {
    chain.stages[i].fusion_group = "pair";
    chain.stages[i].graph = GraphCosts{1, 2, 5, 0, 0};
  }
  return chain;
}

TEST(Violations, OfGraphCostsNameTheField) {
  EXPECT_THAT(Violations(GroupedChain()), IsEmpty());
  Chain chain = GroupedChain();
  chain.graph_entry_seconds = -1;
  chain.stages[1].graph->forward_seconds = -1;
  chain.stages[2].graph->saved_bytes = -1;
  chain.stages[2].graph->backward_overhead_bytes = -1;
  EXPECT_THAT(
      Violations(chain),
      testing::IsSupersetOf({Names("chain.stages[1].graph.forward_seconds", "is -1"),
                             Names("chain.stages[2].graph.saved_bytes", "is -1"),
                             Names("chain.stages[2].graph.backward_overhead_bytes", "is -1"),
                             Names("chain.graph_entry_seconds", "is -1")}));
}

TEST(Violations, AGroupSavesItsOutput) {
  Chain chain = GroupedChain();
  chain.stages[1].graph->saved_bytes = 4;
  EXPECT_THAT(Violations(chain),
              ElementsAre(Names(
                  "chain.stages[2].graph.saved_bytes",
                  "brings the saved bytes of the fusion group to 9, less than output_bytes 10")));
  chain.stages[1].graph->saved_bytes = 5;
  chain.stages[0].graph = GraphCosts{1, 2, 9, 0, 0};
  EXPECT_THAT(Violations(chain), ElementsAre(Names("chain.stages[0].graph.saved_bytes", "is 9")));
}

TEST(Violations, AGroupHasGraphCostsEverywhereOrNowhere) {
  Chain chain = GroupedChain();
  chain.stages[1].graph.reset();
  EXPECT_THAT(Violations(chain),
              ElementsAre(Names("chain.stages[1].graph", "fusion_group 'pair'")));
  chain.stages[2].graph.reset();
  EXPECT_THAT(Violations(chain), IsEmpty());
}

TEST(Violations, AGroupsStagesAreNeighbours) {
  Chain chain = GroupedChain();
  std::swap(chain.stages[2], chain.stages[3]);
  chain.stages[1].graph->saved_bytes = chain.stages[3].graph->saved_bytes = 10;
  EXPECT_THAT(Violations(chain), ElementsAre(Names("chain.stages[3].fusion_group",
                                                   "as that of stages[1], with others between")));
  chain = GroupedChain();
  chain.loss.fusion_group = "pair";
  EXPECT_THAT(Violations(chain), ElementsAre(Names("chain.loss.fusion_group", "runs by itself")));
}

// Each case makes one field of a valid chain invalid, which must be reported under its path.
TEST(Violations, CoverEveryFieldOfAStage) {
  const std::pair<const char*, std::function<void(Stage&)>> faults[] = {
      {"forward_seconds", [](Stage& s) { s.forward_seconds = -1; }},
      {"backward_seconds", [](Stage& s) { s.backward_seconds = -1; }},
      {"output_bytes", [](Stage& s) { s.output_bytes = -1; }},
      {"saved_bytes", [](Stage& s) { s.saved_bytes = s.output_bytes - 1; }},
      {"gradient_bytes", [](Stage& s) { s.gradient_bytes = -1; }},
      {"forward_overhead_bytes", [](Stage& s) { s.forward_overhead_bytes = -1; }},
      {"backward_overhead_bytes", [](Stage& s) { s.backward_overhead_bytes = -1; }},
  };
  for (const auto& [field, fault] : faults) {
    Chain chain = EqualChain(3);
    fault(chain.stages[1]);
    EXPECT_THAT(Violations(chain),
                ElementsAre(Names((std::string("chain.stages[1].") + field).c_str(), "is ")))
        << field;
  }
}

TEST(Violations, RefuseAnEmptyChainAndOneThatIsTooLong) {
  EXPECT_THAT(Violations(EqualChain(0)), ElementsAre(Names("chain.stages", "is empty")));
  EXPECT_THAT(Violations(EqualChain(kMaxStages)), IsEmpty());
  EXPECT_THAT(Violations(EqualChain(100'000)),
              ElementsAre(Names("chain.stages", "has 100000 stages; at most 10000")));
}

TEST(Violations, RefuseSumsOfSizesThatReachTwoToThe62) {
  Chain chain = EqualChain(3);
  chain.stages[0].saved_bytes = (int64_t{1} << 61);
  EXPECT_THAT(Violations(chain), IsEmpty());
  chain.stages[2].forward_overhead_bytes = (int64_t{1} << 61);
  EXPECT_THAT(Violations(chain),
              ElementsAre(Names("chain.stages[2].forward_overhead_bytes", "2^62 bytes or more")));
}

TEST(Violations, CountUnsetGradientsAsLargeAsTheirOutputs) {
  Chain chain = EqualChain(1);
  chain.input_bytes = (int64_t{1} << 61) + 1;  // and the gradient the same
  EXPECT_THAT(Violations(chain),
              ElementsAre(Names("chain.input_gradient_bytes", "2^62 bytes or more")));
  chain.input_gradient_bytes = 0;
  EXPECT_THAT(Violations(chain), IsEmpty());
}

TEST(Violations, RefuseNamesGivenTwice) {
  Chain chain = EqualChain(3);
  chain.stages[0].name = chain.stages[2].name = "conv";
  EXPECT_THAT(Violations(chain), ElementsAre(Names("chain.stages[2].name", "stages[0]")));
  chain.stages[2].name = "";
  EXPECT_THAT(Violations(chain), IsEmpty());
}

TEST(Violations, CoverThePlatform) {
  Platform platform = Memory(-1);
  platform.offload_bytes_per_second = -2;
  platform.prefetch_bytes_per_second = std::nan("");
  platform.transfer_latency_seconds = -3;
  platform.host_memory_bytes = -4;
  EXPECT_THAT(Violations(platform),
              ElementsAre(Names("platform.memory_bytes", "is -1"),
                          Names("platform.host_memory_bytes", "is -4"),
                          Names("platform.offload_bytes_per_second", "is -2"),
                          Names("platform.prefetch_bytes_per_second", "is nan"),
                          Names("platform.transfer_latency_seconds", "is -3")));
}

TEST(Violations, DoNotBlameAnUnsetPrefetchBandwidth) {
  Platform platform = Memory(1);
  platform.offload_bytes_per_second = -2;
  EXPECT_THAT(Violations(platform),
              ElementsAre(Names("platform.offload_bytes_per_second", "is -2")));
}

TEST(Violations, CoverOptionsAndTheSolversName) {
  SolveRequest request{EqualChain(3), Memory(100), "fastest", {}};
  request.options.memory_slots = -1;
  request.options.segments = 4;
  request.options.time_precision = 0.6;
  EXPECT_THAT(
      RequestViolations(request),
      ElementsAre(Names("options.memory_slots", "is -1"),
                  Names("options.segments", "the chain's 3 stages"),
                  Names("options.time_precision", "is 0.6"),
                  Names("solver", "choose one of auto, store_all, periodic, rotor, revolve")));
}

TEST(Violations, RefuseATimePrecisionTooSmallToRoundTo) {
  SolveRequest request{EqualChain(3), Memory(100), "", {.time_precision = 1e-320}};
  EXPECT_THAT(RequestViolations(request),
              ElementsAre(Names("options.time_precision", "from 1e-06")));
}

TEST(Violations, QuoteNoMoreOfANameThanAMessageHolds) {
  SolveRequest request{EqualChain(3), Memory(100), std::string(100'000, 'x'), {}};
  ASSERT_EQ(RequestViolations(request).size(), 1);
  EXPECT_LT(RequestViolations(request)[0].problem.size(), 300);
}

TEST(ViolationsStatus, JoinsAllAndCountsWhatDoesNotFit) {
  EXPECT_THAT(ViolationsStatus({}), IsOk());
  const std::vector<FieldViolation> two = {{"a", "is 1"}, {"b", "is 2"}};
  EXPECT_THAT(ViolationsStatus(two), Fails(absl::StatusCode::kInvalidArgument, "a: is 1; b: is 2"));
  EXPECT_THAT(ViolationsStatus(two, 8),
              Fails(absl::StatusCode::kInvalidArgument, "a: is 1; and 1 more violated fields"));
}

}  // namespace
}  // namespace stowage
