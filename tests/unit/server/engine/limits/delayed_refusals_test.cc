#include "server/engine/limits/delayed_refusals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace stowage {
namespace {

using std::chrono::hours;

class DelayedRefusalsTest : public testing::Test {
 protected:
  // Due long after the test.
  std::shared_ptr<DelayedRefusals::Refusal> Delay(const std::string& client) {
    return refusals_.Delay(client, Timers::Clock::now() + hours(1), [this] { ++sent_; });
  }

  Timers timers_;
  DelayedRefusals refusals_{timers_, {.of_all = 5, .of_a_client = 3}};
  int sent_ = 0;
};

TEST_F(DelayedRefusalsTest, AreSentWhenTheyAreDue) {
  std::promise<void> sent;
  refusals_.Delay("client", Timers::Clock::now(), [&sent] { sent.set_value(); });
  sent.get_future().wait();
  EXPECT_EQ(refusals_.size(), 0);
}

TEST_F(DelayedRefusalsTest, EndOnceWithTheirCaller) {
  const auto refusal = Delay("client");
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(sent_, 0);
  EXPECT_EQ(refusals_.size(), 1);
  EXPECT_GT(refusal.use_count(), 1) << "the timer has it";
  refusal->SendNow();
  EXPECT_EQ(sent_, 1);
  EXPECT_EQ(refusals_.size(), 0);
  EXPECT_EQ(refusal.use_count(), 1) << "nothing waits for a caller that has gone";
  refusal->SendNow();
  EXPECT_EQ(sent_, 1);
}

TEST_F(DelayedRefusalsTest, OfOneClientDoNotTakeTheRoomOfOthers) {
  for (int i = 0; i < 3; ++i) EXPECT_NE(Delay("hostile"), nullptr);
  EXPECT_EQ(Delay("hostile"), nullptr);
  EXPECT_EQ(sent_, 1) << "beyond its share at once";
  EXPECT_NE(Delay("honest"), nullptr);
  EXPECT_EQ(sent_, 1);
}

TEST_F(DelayedRefusalsTest, OfAllAreBounded) {
  for (const char* client : {"a", "a", "b", "b", "c"}) EXPECT_NE(Delay(client), nullptr);
  EXPECT_EQ(Delay("d"), nullptr);
  EXPECT_EQ(sent_, 1);
  EXPECT_EQ(refusals_.size(), 5);
}

TEST_F(DelayedRefusalsTest, MakeRoomForOthersOnceTheyAreSent) {
  std::vector<std::shared_ptr<DelayedRefusals::Refusal>> refusals;
  for (int i = 0; i < 3; ++i) refusals.push_back(Delay("client"));
  refusals[1]->SendNow();
  EXPECT_NE(Delay("client"), nullptr);
  EXPECT_EQ(Delay("client"), nullptr);
}

}  // namespace
}  // namespace stowage
