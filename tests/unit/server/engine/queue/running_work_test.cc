#include "server/engine/queue/running_work.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>

namespace stowage {
namespace {

using std::chrono::seconds;
using Lane = RunningWork::Lane;

class RunningWorkTest : public testing::Test {
 protected:
  using Clock = RunningWork::Clock;
  static Work WithBytes(int64_t bytes) {
    return {.run = [] {}, .bytes = bytes};
  }

  const Clock::time_point now_ = Clock::time_point() + seconds(1000);
  RunningWork running_{{.threads = 2,
                        .short_threads = 1,
                        .turn_seconds = 10,
                        .overstay_seconds = 3,
                        .max_bytes = 100}};
};

TEST_F(RunningWorkTest, CountsWhatHasStartedUntilItEnds) {
  const RunningWork::Started started = {.client = "a", .bytes = 60, .at = now_};
  running_.Start(started);
  EXPECT_EQ(running_.count(), 1);
  EXPECT_EQ(running_.bytes(), 60);
  EXPECT_EQ(running_.count_of("a"), 1);
  EXPECT_EQ(running_.count_of("b"), 0);
  EXPECT_TRUE(running_.HasAThread("a"));
  running_.Finish(started);
  EXPECT_EQ(running_.count(), 0);
  EXPECT_EQ(running_.bytes(), 0);
  EXPECT_FALSE(running_.HasAThread("a"));
}

TEST_F(RunningWorkTest, MoreMayStartOnceTheOldestWorkHasOutlastedItsTurn) {
  EXPECT_LE(running_.ServesFrom(Lane::kAll), now_);
  running_.Start({.client = "a", .at = now_});
  EXPECT_LE(running_.ServesFrom(Lane::kAll), now_);
  running_.Start({.client = "b", .at = now_ + seconds(5)});
  EXPECT_TRUE(running_.HasNoThreadLeft());
  EXPECT_EQ(running_.ServesFrom(Lane::kAll), now_ + seconds(10));
  running_.Start({.client = "c", .at = now_ + seconds(10)});
  EXPECT_EQ(running_.ServesFrom(Lane::kAll), now_ + seconds(15));
}

TEST_F(RunningWorkTest, SpareThreadsServeShortWorkOnceAllForItOverstay) {
  EXPECT_EQ(running_.ServesFrom(Lane::kSpare), Clock::time_point::max());
  running_.Start({.client = "a", .lane = Lane::kShort, .at = now_});
  EXPECT_EQ(running_.ServesFrom(Lane::kSpare), now_ + seconds(3));
  EXPECT_FALSE(running_.Overstays("a", now_ + seconds(2)));
  EXPECT_TRUE(running_.Overstays("a", now_ + seconds(3)));
  EXPECT_FALSE(running_.Overstays("b", now_ + seconds(3)));
}

TEST_F(RunningWorkTest, AClientLeavesTheLastThreadAndAQuarterOfTheMemoryToOthers) {
  EXPECT_FALSE(running_.HasItsShare("a"));
  EXPECT_FALSE(running_.HasItsMemory("a", WithBytes(100))) << "one alone may take all";
  running_.Start({.client = "a", .bytes = 60, .at = now_});
  EXPECT_TRUE(running_.HasItsShare("a"));
  EXPECT_FALSE(running_.HasItsShare("b"));
  EXPECT_FALSE(running_.HasItsMemory("a", WithBytes(15)));
  EXPECT_TRUE(running_.HasItsMemory("a", WithBytes(16)));
}

TEST_F(RunningWorkTest, WorkThatNobodyWaitsForNeedsNoMemory) {
  running_.Start({.client = "a", .bytes = 100, .at = now_});
  std::stop_source gone;
  Work work = WithBytes(50);
  work.stop = gone.get_token();
  EXPECT_FALSE(running_.HasRoomFor(work));
  gone.request_stop();
  EXPECT_TRUE(running_.HasRoomFor(work));
  EXPECT_FALSE(running_.HasItsMemory("a", work));
}

TEST_F(RunningWorkTest, ShortWorkHasTheThreadsForItBesideTheOthers) {
  const Work work = WithBytes(0);
  Work short_work = WithBytes(0);
  short_work.is_short = true;
  EXPECT_EQ(running_.FreeThreadsFor(work), 2);
  EXPECT_EQ(running_.FreeThreadsFor(short_work), 3);
  for (const char* client : {"a", "b", "c"}) running_.Start({.client = client, .at = now_});
  EXPECT_EQ(running_.FreeThreadsFor(work), 0) << "one of them is on a spare thread";
  EXPECT_EQ(running_.FreeThreadsFor(short_work), 0);
}

}  // namespace
}  // namespace stowage
