#include "server/engine/export_solve.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "solver/export/targets.h"
#include "tests/unit/server/engine/engine_fixture.h"

namespace stowage {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

class ExportSolveTest : public EngineTest {
 protected:
  ListenerPtr SendExport(absl::string_view target, const SolveRequest& request,
                         Caller caller = {}) {
    auto listener = std::make_shared<RecordingListener>();
    const LayerStages stages{1, request.chain.length()};
    auto exported = std::make_shared<const ExportRequest>(
        ExportRequest{FindTarget(target), request.chain, request.platform, stages});
    SolveAndExport(engine_, request, std::move(exported), std::move(caller), listener);
    return listener;
  }
  SolveResult Exported(absl::string_view target, const SolveRequest& request) {
    absl::StatusOr<SolveResult> result = SendExport(target, request)->Wait();
    EXPECT_THAT(result, IsOk());
    if (!result.ok() || result->exported == nullptr) std::abort();
    return *std::move(result);
  }

  static SolveRequest Request(int64_t memory_bytes = 300) {
    return {EqualChain(10), Memory(memory_bytes), "", {}};
  }
};

TEST_F(ExportSolveTest, AnswersTheRequestAndHasThePlanBeside) {
  for (const Target& target : AllTargets()) {
    SCOPED_TRACE(target.name);
    const SolveResult result = Exported(target.name, Request());
    const SolveResult plain = Answered(Request());
    EXPECT_EQ(result.answer->schedule, plain.answer->schedule);
    EXPECT_EQ(result.origin.fingerprint, plain.origin.fingerprint);
    EXPECT_EQ(plain.origin.source, Origin::Source::kMemoryCache);
    const Export& exported = *result.exported;
    ASSERT_TRUE(exported.exported.has_value());
    EXPECT_LE(exported.exported->prediction.peak_memory_bytes, 300);
    EXPECT_EQ(exported.comparison.size(), 3);
    EXPECT_THAT(exported.text, HasSubstr(exported.comparison[1]));
    EXPECT_EQ(exported.full->schedule, plain.answer->schedule);
    EXPECT_FALSE(exported.time_ran_out);
  }
}

TEST_F(ExportSolveTest, SharesThePlansSolveWithEqualRequests) {
  const ExportRequest jax{FindTarget("jax"), Request().chain, Request().platform, {1, 10}};
  const SolveRequest solve = *PlanSolve(jax, {});
  EXPECT_EQ(solve.solver, "flat");
  Exported("pytorch", Request());
  EXPECT_EQ(Answered(solve).origin.source, Origin::Source::kMemoryCache);
}

TEST_F(ExportSolveTest, NoPlanIsAnAnswer) {
  for (const char* target : {"huggingface", "deepspeed"}) {
    const Export exported = *Exported(target, Request(50)).exported;
    EXPECT_FALSE(exported.exported.has_value());
    EXPECT_EQ(exported.text, "");
    ASSERT_TRUE(exported.minimum_memory_bytes.has_value());
    const Export enough = *Exported(target, Request(*exported.minimum_memory_bytes)).exported;
    EXPECT_TRUE(enough.exported.has_value());
  }
}

TEST_F(ExportSolveTest, CountsAmongTheSolvesOfItsClient) {
  // More settings than are tried outside of the queue.
  const SolveRequest request = {EqualChain(200), Memory(1'000'000), "store_all", {}};
  Caller caller{.client = "busy", .stop = stops_[0].get_token(), .limits = kOneSolve};
  const ListenerPtr busy = Send(Endless(), caller);
  WaitUntilRunning(1);
  for (const char* target : {"megatron", "torchtitan"}) {
    EXPECT_THAT(SendExport(target, request, caller)->Wait(),
                Fails(absl::StatusCode::kResourceExhausted, HasSubstr("this client has")));
  }
  stops_[0].request_stop();
  EXPECT_THAT(busy->Wait(), Fails(absl::StatusCode::kCancelled, HasSubstr("caller")));
}

TEST_F(ExportSolveTest, CountsTheChainOfItsLayersAsMemoryOfSolves) {
  // Tries 20,000 settings, which takes minutes.
  SolveRequest request = {EqualChain(10'000), Memory(100'000'000), "store_all", {}};
  for (Stage& stage : request.chain.stages) stage.name = std::string(1000, 'x');
  const ListenerPtr listener = SendExport("megatron", request, {.stop = stops_[0].get_token()});
  WaitUntilRunning(1);
  EXPECT_GE(engine_.stats().solves.running_bytes, BytesOf(request.chain));
  stops_[0].request_stop();
  EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, HasSubstr("caller")));
}

TEST_F(ExportSolveTest, AnswersWithTheBestPlanSoFarWhenTimeRunsOut) {
  // Tries 20,000 settings, which takes far longer than the budget.
  SolveRequest request = {EqualChain(10'000), Memory(100'000'000), "store_all", {}};
  request.options.time_budget_seconds = 2;
  const SolveResult result = Exported("megatron", request);
  EXPECT_TRUE(result.exported->exported.has_value());
  EXPECT_TRUE(result.exported->time_ran_out);
  EXPECT_THAT(result.exported->text, HasSubstr("Time ran out"));
}

// Begun before the drain, with the second solve to come.
TEST_F(ExportSolveTest, FindsBothWhileTheServerDrains) {
  const SolveRequest simulated = {EqualChain(200), Memory(1'000'000), "store_all", {}};
  const ListenerPtr busy[] = {Send(Endless(0), {.stop = stops_[0].get_token()}),
                              Send(Endless(1), {.stop = stops_[0].get_token()})};
  WaitUntilRunning(2);
  const ListenerPtr exports[] = {SendExport("megatron", simulated), SendExport("jax", Request())};
  std::jthread drain([this] { engine_.Drain(Clock::now() + kLong); });
  while (!engine_.draining()) std::this_thread::yield();
  stops_[0].request_stop();
  for (const ListenerPtr& listener : busy) (void)listener->Wait();
  for (const ListenerPtr& listener : exports) {
    const absl::StatusOr<SolveResult> result = listener->Wait();
    ASSERT_THAT(result, IsOk());
    EXPECT_TRUE(result->exported->exported.has_value());
  }
}

TEST_F(ExportSolveTest, IsRefusedAndStoppedAsOtherRequestsAre) {
  const ListenerPtr running = SendExport("pytorch", EndlessWithoutResults());
  engine_.Drain(Clock::now());
  EXPECT_THAT(running->Wait(),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("ask another server")));
  EXPECT_THAT(SendExport("pytorch", Request())->Wait(),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("draining")));
}

TEST_F(ExportSolveTest, EndsWhenItsCallerLeaves) {
  for (const char* target : {"pytorch", "megatron"}) {
    SCOPED_TRACE(target);
    std::stop_source stop;
    const ListenerPtr listener = SendExport(target, Endless(), {.stop = stop.get_token()});
    stop.request_stop();
    EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, HasSubstr("caller")));
  }
}

}  // namespace
}  // namespace stowage
