#include "server/observe/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace stowage::status_test {
namespace {

class Status : public testing::Test {
 protected:
  MetricsSnapshot At(double uptime_seconds) const {
    MetricsSnapshot snapshot = metrics_.Collect(gauges_);
    snapshot.uptime_seconds = uptime_seconds;
    return snapshot;
  }
  void Call() {
    metrics_.CallBegan("Solve");
    CallRecord call;
    call.method = "Solve";
    metrics_.CallEnded(call);
  }

  Metrics metrics_{"1.2.3"};
  Gauges gauges_;
  StatusHistory history_;
};

TEST_F(Status, HasTheStateOfTheServer) {
  gauges_.ready = true;
  gauges_.engine.solves = {.waiting = 3, .running = 1, .running_bytes = 600};
  gauges_.engine.threads = 2;
  gauges_.engine.queue_length = 256;
  gauges_.engine.requests = 4;
  gauges_.engine.running = {
      {.thread = 2, .solver = "rotor", .stages = 339, .seconds = 3.5, .fraction = 0.25}};
  gauges_.solve_limit_bytes = 8000;
  gauges_.memory = {.entries = 5, .bytes = 500};
  gauges_.memory_limit_bytes = 2001;
  gauges_.tiers = {{.stats = {.name = "disk"}, .limit_bytes = 0},
                   {.stats = {.name = "shared"}, .in_use = true}};
  gauges_.process.resident_bytes = 1e9;
  metrics_.CallBegan("Solve");
  Call();
  const v1::ServerStatus status = history_.Look(At(60), std::nullopt);
  EXPECT_EQ(status.version(), "1.2.3");
  EXPECT_TRUE(status.ready());
  EXPECT_GT(status.start_unix_seconds(), 1.7e9);
  EXPECT_EQ(status.uptime_seconds(), 60);
  EXPECT_EQ(status.resident_bytes(), 1'000'000'000);
  ASSERT_EQ(status.calls_in_flight_size(), 1);
  EXPECT_EQ(status.calls_in_flight(0).name(), "Solve");
  EXPECT_EQ(status.calls_in_flight(0).count(), 1);
  EXPECT_EQ(status.requests_in_flight(), 4);
  EXPECT_EQ(status.solves().waiting(), 3);
  EXPECT_EQ(status.solves().waiting_limit(), 256);
  EXPECT_EQ(status.solves().running(), 1);
  EXPECT_EQ(status.solves().running_limit(), 2);
  EXPECT_EQ(status.solves().bytes(), 600);
  EXPECT_EQ(status.solves().limit_bytes(), 8000);
  ASSERT_EQ(status.running_size(), 1);
  EXPECT_EQ(status.running(0).thread(), 2);
  EXPECT_EQ(status.running(0).solver(), "rotor");
  EXPECT_EQ(status.running(0).stages(), 339);
  EXPECT_EQ(status.running(0).seconds(), 3.5);
  EXPECT_EQ(status.running(0).fraction(), 0.25);
  ASSERT_EQ(status.caches_size(), 4);
  EXPECT_EQ(status.caches(0).name(), "memory");
  EXPECT_EQ(status.caches(0).entries(), 5);
  EXPECT_EQ(status.caches(0).bytes(), 500);
  EXPECT_EQ(status.caches(0).limit_bytes(), 1001);
  EXPECT_TRUE(status.caches(0).in_use());
  EXPECT_EQ(status.caches(1).limit_bytes(), 1000);
  EXPECT_FALSE(status.caches(2).in_use());
  EXPECT_EQ(status.caches(3).name(), "shared");
  EXPECT_TRUE(status.caches(3).in_use());
  EXPECT_EQ(status.since_start().seconds(), 60);
}

TEST_F(Status, HasTheWindowSinceAnEarlierLook) {
  Call();
  EXPECT_FALSE(history_.Look(At(12.345678), std::nullopt).has_last());
  Call();
  history_.Remember(At(13));
  Call();
  const v1::ServerStatus status = history_.Look(At(14.345678), 12.345678);
  EXPECT_DOUBLE_EQ(status.last().seconds(), 2);
  EXPECT_EQ(status.last().calls(0).calls(), 2);
  EXPECT_EQ(status.since_start().calls(0).calls(), 3);
}

TEST_F(Status, HasNoWindowSinceALookThatIsYetToCome) {
  EXPECT_FALSE(history_.Look(At(2), 12.5).has_last());
  EXPECT_FALSE(history_.Look(At(12.5), 12.5).has_last());
}

TEST_F(Status, WindowsAreAsLongAsTheServerHasBeenUp) {
  const v1::ServerStatus status = history_.Look(At(3), 1);
  EXPECT_EQ(status.last().seconds(), 3);  // nobody had looked by then
  ASSERT_EQ(status.recent_size(), 3);
  for (const v1::StatusWindow& window : status.recent()) EXPECT_EQ(window.seconds(), 3);
}

TEST_F(Status, RecentWindowsAreLittleLongerThanTheySay) {
  for (int seconds = 0; seconds < 1000; seconds += 5) history_.Remember(At(seconds));
  const v1::ServerStatus status = history_.Look(At(1000), std::nullopt);
  const double wanted[] = {10, 60, 300};
  for (int i = 0; i < 3; ++i) {
    EXPECT_GE(status.recent(i).seconds(), wanted[i]);
    EXPECT_LE(status.recent(i).seconds(), wanted[i] * 17 / 16 + 5);
  }
}

TEST_F(Status, AMomentOfAnotherThreadMayComeLate) {
  history_.Remember(At(7));
  history_.Remember(At(6));
  EXPECT_EQ(history_.Look(At(10), 6.5).last().seconds(), 10);
  EXPECT_EQ(history_.Look(At(11), 7).last().seconds(), 4);
}

// However often and irregularly they come, for three days.
TEST_F(Status, RemembersFewMomentsAndAnyWindow) {
  std::mt19937 random(4711);
  std::exponential_distribution<double> often(100);
  std::exponential_distribution<double> rarely(1.0 / 90);
  MetricsSnapshot snapshot = At(0);
  double now = 0;
  double longest = 0;  // between two moments
  for (int i = 0; i < 10'000; ++i) {
    const double wait = i % 3 == 0 ? rarely(random) : often(random);
    longest = std::max(longest, wait);
    now += wait;
    snapshot.uptime_seconds = now;
    history_.Remember(snapshot);
    ASSERT_LE(history_.size(), 600);
  }
  EXPECT_GT(now, 3 * 86400);
  for (int i = 0; i < 60; ++i) {
    const double ago = 0.01 * std::pow(1.3, i);  // up to 15 hours
    now += 1e-3;
    snapshot.uptime_seconds = now;
    const double seconds = history_.Look(snapshot, now - ago).last().seconds();
    EXPECT_GE(seconds, ago - 1e-5);
    EXPECT_LE(seconds, ago * 17 / 16 + longest);
  }
}

}  // namespace
}  // namespace stowage::status_test
