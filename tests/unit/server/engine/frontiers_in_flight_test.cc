// Frontiers, which no callers share.
#include "server/engine/frontiers_in_flight.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/server/engine/engine_fixture.h"

namespace stowage {
namespace {

using testing::HasSubstr;

class FrontierTest : public EngineTest {};

// The request sets no memory budget, but the solves for its points need memory all the same.
TEST_F(FrontierTest, DeclaresTheMemoryOfAFrontier) {
  const SolveRequest endless = Endless();
  std::stop_source caller;
  std::promise<void> done;
  FrontierRequest request;
  request.chain = endless.chain;
  request.solver = endless.solver;
  request.options = endless.options;
  engine_.FindFrontier(request, {.stop = caller.get_token()},
                       [&done](const auto&) { done.set_value(); });
  WaitUntilRunning(1);
  EXPECT_GT(engine_.stats().solves.running_bytes, 100 << 20);
  caller.request_stop();
  done.get_future().wait();
}

TEST_F(FrontierTest, ListsFrontiersToo) {
  const SolveRequest endless = Endless();
  std::stop_source caller;
  std::promise<void> done;
  FrontierRequest request;
  request.chain = endless.chain;  // and no solver, which is auto
  engine_.FindFrontier(request, {.stop = caller.get_token()},
                       [&done](const auto&) { done.set_value(); });
  while (engine_.stats().running.empty()) std::this_thread::yield();
  EXPECT_EQ(engine_.stats().running[0].solver, "auto");
  EXPECT_EQ(engine_.stats().running[0].stages, 600);
  caller.request_stop();
  done.get_future().wait();
  EXPECT_TRUE(engine_.stats().running.empty());
}

TEST_F(FrontierTest, CountsAmongTheSolvesOfItsClient) {
  const Caller caller{.client = "busy", .stop = stops_[0].get_token(), .limits = kOneSolve};
  const ListenerPtr busy = Send(Endless(), caller);
  WaitUntilRunning(1);
  std::promise<absl::Status> ended;
  FrontierRequest request;
  request.chain = EqualChain(4);
  engine_.FindFrontier(request, caller,
                       [&ended](const auto& result) { ended.set_value(result.status()); });
  EXPECT_THAT(ended.get_future().get(),
              Fails(absl::StatusCode::kResourceExhausted, HasSubstr("this client has 1")));
  stops_[0].request_stop();
  EXPECT_FALSE(busy->Wait().ok());
}

// One that runs, and one that waits: its caller is told before its turn.
TEST_F(FrontierTest, OperatorsListFrontiersAndStopThem) {
  Engine engine({.threads = 1}, &cache_, &observer_);
  const SolveRequest endless = Endless();
  FrontierRequest request;
  request.chain = endless.chain;
  const auto find = [&](const std::string& client, const std::string& fingerprint) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    engine.FindFrontier(
        request, {.client = client},
        [promise](const auto& result) { promise->set_value(result.status()); }, fingerprint);
    return promise->get_future();
  };
  std::future<absl::Status> running = find("a", "1");
  while (engine.stats().running.empty()) std::this_thread::yield();
  std::future<absl::Status> waiting = find("b", "2");
  const std::vector<FrontierInFlight> list = engine.ListFrontiers();
  ASSERT_EQ(list.size(), 2);
  for (const FrontierInFlight& frontier : list) {
    EXPECT_EQ(frontier.solver, "auto");
    EXPECT_EQ(frontier.stages, 600);
    EXPECT_GT(frontier.memory_bytes, 0);
    EXPECT_EQ(frontier.client, frontier.fingerprint == "1" ? "a" : "b");
  }
  EXPECT_EQ(engine.CancelFrontiers("2"), 1);
  EXPECT_THAT(waiting.get(), Fails(absl::StatusCode::kAborted, HasSubstr("an operator")));
  EXPECT_EQ(engine.ListFrontiers().size(), 1);
  EXPECT_EQ(engine.CancelFrontiers("2"), 0);
  EXPECT_EQ(engine.CancelFrontiers("1"), 1);
  EXPECT_THAT(running.get(), Fails(absl::StatusCode::kAborted, HasSubstr("an operator")));
  EXPECT_TRUE(engine.ListFrontiers().empty());
}

}  // namespace
}  // namespace stowage
