#include "server/engine/solves/waiters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/server/engine/new_waiter.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class WaitersTest : public EngineTest {
 protected:
  WaiterPtr Add(SolveRequest request, const std::string& client) {
    WaiterPtr waiter = NewWaiter(std::move(request), {.client = client}).waiter;
    waiters_.Add(waiter);
    return waiter;
  }

  const WaiterPtr first_ = NewWaiter(Quick(), {.client = "first"}).waiter;
  Waiters waiters_{*first_};
};

TEST_F(WaitersTest, AreNumberedInTheOrderInWhichTheyCome) {
  waiters_.Add(first_);
  const WaiterPtr second = Add(Quick(), "second");
  EXPECT_EQ(first_->id, 1);
  EXPECT_EQ(second->id, 2);
  EXPECT_THAT(waiters_.All(), ElementsAre(first_, second));
  EXPECT_EQ(waiters_.Remove(1), first_);
  EXPECT_EQ(waiters_.Remove(1), nullptr);
  EXPECT_FALSE(waiters_.Has(1));
  EXPECT_EQ(Add(Quick(), "third")->id, 3);
}

TEST_F(WaitersTest, TheOwnerIsWhoHasWaitedLongest) {
  waiters_.Add(first_);
  Add(Quick(), "second");
  Add(Quick(), "third");
  EXPECT_EQ(waiters_.owner().client, "first");
  (void)waiters_.Remove(2);
  EXPECT_EQ(waiters_.owner().client, "first");
  (void)waiters_.Remove(1);
  EXPECT_EQ(waiters_.owner().client, "third");
  (void)waiters_.Remove(3);
  EXPECT_TRUE(waiters_.empty());
  EXPECT_EQ(waiters_.owner().client, "third") << "who left last";
}

TEST_F(WaitersTest, EqualRequestsAreInMemoryOnce) {
  waiters_.Add(first_);
  const WaiterPtr equal = Add(Quick(), "second");
  const WaiterPtr similar = Add(Similar(Quick()), "third");
  const WaiterPtr other = Add(Similar(Quick()), "fourth");
  EXPECT_EQ(equal->keyed, first_->keyed);
  EXPECT_NE(similar->keyed, first_->keyed);
  EXPECT_EQ(other->keyed, similar->keyed);
}

TEST_F(WaitersTest, AClientIsThereUntilTheLastOfItsWaitersLeaves) {
  waiters_.Add(first_);
  Add(Quick(), "first");
  Add(Quick(), "second");
  EXPECT_THAT(waiters_.Clients(), ElementsAre("first", "second"));
  (void)waiters_.Remove(1);
  EXPECT_TRUE(waiters_.HasClient("first"));
  EXPECT_THAT(
      waiters_.RemoveIf([](const Waiter& waiter) { return waiter.caller.client == "first"; }),
      testing::SizeIs(1));
  EXPECT_FALSE(waiters_.HasClient("first"));
  EXPECT_THAT(waiters_.RemoveIf([](const Waiter& waiter) { return waiter.id == 9; }), IsEmpty());
}

}  // namespace
}  // namespace stowage
