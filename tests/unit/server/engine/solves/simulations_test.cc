#include "server/engine/solves/simulations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/server/engine/new_waiter.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using Clock = Timers::Clock;

class SimulationsTest : public EngineTest {
 protected:
  // A waiter of the solve with one of the requests, due after so many seconds.
  WaiterPtr Waiting(int request, const std::string& client, int due_seconds = 100) {
    const auto waiter = std::make_shared<Waiter>(
        requests_[request], Caller{.client = client}, nullptr, Clock::time_point(),
        Clock::time_point() + std::chrono::seconds(due_seconds));
    waiters_.Add(waiter);
    return waiter;
  }
  std::optional<Simulations::Group> Next(const std::string& client) {
    return simulations_.Next(client, waiters_);
  }
  bool Has(const std::string& client) { return simulations_.Has(client, waiters_); }

  const std::vector<KeyedRequestPtr> requests_ = {Keyed(Quick(0)), Keyed(Quick(1)),
                                                  Keyed(Quick(2))};
  Waiters waiters_{*NewWaiter(Quick(3)).waiter};
  Simulations simulations_;
};

TEST_F(SimulationsTest, ServesTheRequestsOfAClientInTheOrderInWhichTheyAreDue) {
  const std::vector<WaiterPtr> waiters = {Waiting(0, "a", 30), Waiting(1, "a", 20),
                                          Waiting(0, "a", 10), Waiting(2, "b", 1)};
  EXPECT_THAT(simulations_.Add(waiters), ElementsAre("b", "a"));
  EXPECT_THAT(Next("a")->others, ElementsAre(1, 3)) << "one of them is due first";
  EXPECT_THAT(Next("a")->others, ElementsAre(2));
  EXPECT_FALSE(Next("a").has_value());
  EXPECT_THAT(Next("b")->others, ElementsAre(4));
}

TEST_F(SimulationsTest, LateWaitersComeFirstThoseWithOneRequestTogether) {
  EXPECT_THAT(simulations_.Add({Waiting(0, "a")}), ElementsAre("a"));
  const std::vector<WaiterPtr> late = {Waiting(1, "a"), Waiting(2, "a"), Waiting(1, "a")};
  for (const WaiterPtr& waiter : late) {
    EXPECT_FALSE(simulations_.AddLate(waiter)) << "its client's work is in the queue already";
  }
  EXPECT_THAT(Next("a")->late, ElementsAre(late[0], late[2]));
  EXPECT_THAT(Next("a")->late, ElementsAre(late[1]));
  EXPECT_THAT(Next("a")->others, ElementsAre(1));
}

TEST_F(SimulationsTest, SkipsRequestsWhoseWaitersHaveAllLeft) {
  (void)simulations_.Add({Waiting(0, "a", 1), Waiting(1, "a", 2), Waiting(1, "a", 2)});
  for (int id : {1, 3}) EXPECT_NE(waiters_.Remove(id), nullptr);
  EXPECT_TRUE(Has("a"));
  EXPECT_THAT(Next("a")->others, ElementsAre(2, 3));
  EXPECT_FALSE(Has("a"));
}

TEST_F(SimulationsTest, TheWorkOfAClientIsAddedAgainAfterItHasEnded) {
  EXPECT_TRUE(simulations_.AddLate(Waiting(0, "a")));
  EXPECT_TRUE(Next("a").has_value());
  EXPECT_FALSE(simulations_.AddLate(Waiting(0, "a"))) << "the work runs";
  EXPECT_TRUE(Next("a").has_value());
  EXPECT_FALSE(Has("a"));
  EXPECT_TRUE(simulations_.AddLate(Waiting(0, "a")));
  EXPECT_FALSE(Has("b"));
}

}  // namespace
}  // namespace stowage
