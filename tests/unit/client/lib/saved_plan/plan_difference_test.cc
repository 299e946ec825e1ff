#include "client/lib/saved_plan/plan_difference.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/chains.h"

namespace stowage {
namespace {

SolveRequest Request() {
  SolveRequest request{EqualChain(4), Memory(int64_t{4} << 30), "rotor", {}};
  request.chain.stages[2].name = "mlp";
  request.chain.stages[2].save_options = {{"norms", 20, 3, 4}};
  request.platform.offload_bytes_per_second = 1e9;
  return request;
}

using Change = std::function<void(SolveRequest*)>;

std::string DifferenceBy(const Change& change, const Schedule& schedule = Ops("S1 S2")) {
  SolveRequest now = Request();
  change(&now);
  return PlanDifference(Request(), now, schedule);
}

TEST(PlanDifference, NamesTheFieldWhatItWasAndWhatItIs) {
  const std::vector<std::pair<Change, std::string>> cases = {
      {[](auto* now) { now->platform.memory_bytes = int64_t{5} << 30; },
       "memory 4.00 GiB, now 5.00 GiB"},
      {[](auto* now) { ++now->platform.memory_bytes; }, "memory 4294967296 B, now 4294967297 B"},
      {[](auto* now) { now->solver = ""; }, "solver rotor, now auto"},
      {[](auto* now) { now->options.memory_slots = 77; }, "memory_slots 0, now 77"},
      {[](auto* now) { now->options.time_precision = 0.5; }, "time_precision 0, now 0.5"},
      {[](auto* now) { now->options.segments = 3; }, "segments 0, now 3"},
      {[](auto* now) { now->options.report_rounding_loss = true; },
       "report_rounding_loss 0, now 1"},
      {[](auto* now) { now->options.time_budget_seconds = 2; }, "time_budget_seconds 0, now 2"},
      {[](auto* now) { now->options.use_cache = false; }, "use_cache 1, now 0"},
      {[](auto* now) { now->chain.stages.pop_back(); }, "stages 4, now 3"},
      {[](auto* now) { now->chain.input_bytes += 1; }, "input_bytes 10 B, now 11 B"},
      {[](auto* now) { now->chain.stages[2].saved_bytes = 1 << 20; },
       "stage 3 (mlp)'s saved_bytes 30 B, now 1.00 MiB"},
      {[](auto* now) { now->chain.stages[1].no_recompute = true; },
       "stage 2's former properties, now others"},
      {[](auto* now) { now->chain.stages[2].save_options[0].saved_bytes = 15; },
       "stage 3 (mlp)'s former properties, now others"},
      {[](auto* now) { now->chain.loss.forward_overhead_bytes = 7; },
       "the loss's forward_overhead_bytes 0 B, now 7 B"},
  };
  for (const auto& [change, expected] : cases) EXPECT_EQ(DifferenceBy(change), expected);
}

TEST(PlanDifference, IsNoneInWhatIsMeasuredAnewAtEveryStart) {
  const auto measured = [](SolveRequest* now) {
    now->chain.name = "another";
    for (Stage& stage : now->chain.stages) {
      stage.name += "'";
      stage.forward_seconds *= 1.3;
      stage.backward_seconds *= 0.8;
      stage.replay_seconds = 1;
      for (SaveOption& option : stage.save_options) option = {"'", 20, 9, 4};
    }
    now->platform.name = "another";
    now->platform.offload_bytes_per_second *= 1.2;
    now->platform.transfer_latency_seconds = 1e-5;
    now->platform.half_duplex = true;
  };
  EXPECT_EQ(DifferenceBy(measured), "");
  EXPECT_EQ(DifferenceBy(measured, Ops("S1 O1 S2 R1")), "");
}

TEST(PlanDifference, IsNoneInALinkThatThePlanDoesNotUse) {
  const Change host = [](auto* now) { now->platform.host_memory_bytes = 1000; };
  EXPECT_EQ(DifferenceBy(host), "");
  EXPECT_EQ(DifferenceBy(host, Ops("S1 O1 S2 R1")), "host memory 0 B, now 1000 B");
  const Change without = [](auto* now) { now->platform.offload_bytes_per_second = 0; };
  EXPECT_EQ(DifferenceBy(without), "");
  // Now that something can be offloaded, there may be a better plan.
  SolveRequest made_for = Request();
  without(&made_for);
  EXPECT_EQ(PlanDifference(made_for, Request(), Ops("S1 S2")),
            "a device without a link to the host, now there is one");
}

}  // namespace
}  // namespace stowage
