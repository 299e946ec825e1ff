#include "server/engine/queue/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/server/engine/one_thread.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLong{60};

TEST(WorkQueue, RunsEverythingOnce) {
  std::atomic<int> runs{0};
  {
    WorkQueue queue({.threads = 4, .max_waiting = 1000});
    for (int i = 0; i < 500; ++i) ASSERT_THAT(queue.Add({.run = [&runs] { ++runs; }}), IsOk());
  }  // the destructor runs what is queued
  EXPECT_EQ(runs, 500);
}

TEST(WorkQueue, RefusesWhatDoesNotFitAndSaysWhen) {
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  WorkQueue queue({.threads = 1, .max_waiting = 2});
  // One runs (or is about to), two wait.
  for (int i = 0; i < 3; ++i) ASSERT_THAT(queue.Add({.run = [gone] { gone.wait(); }}), IsOk());
  EXPECT_THAT(queue.Add({.run = [] {}}),
              Fails(absl::StatusCode::kResourceExhausted, testing::HasSubstr("try again")));
  go.set_value();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_THAT(queue.Add({.run = [] {}}), IsOk());
}

TEST(WorkQueue, ALowerLimitHoldsForWhatComesAndLeavesWhatWaits) {
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  std::atomic<int> runs{0};
  const auto work = [&runs, gone] {
    return Work{.run =
                    [&runs, gone] {
                      gone.wait();
                      ++runs;
                    },
                .client = "client"};
  };
  const auto fails_with = [](const char* message) {
    return Fails(absl::StatusCode::kResourceExhausted, testing::HasSubstr(message));
  };
  WorkQueue queue({.threads = 1, .max_waiting = 2});
  for (int i = 0; i < 3; ++i) ASSERT_THAT(queue.Add(work()), IsOk());
  queue.SetMaxWaiting(1);
  EXPECT_EQ(queue.max_waiting(), 1U);
  EXPECT_THAT(queue.Add(work()), fails_with("the queue is full"));
  queue.SetMaxWaiting(3);
  EXPECT_THAT(queue.Add(work()), IsOk());
  queue.SetMaxOfAClient(2);
  EXPECT_THAT(queue.Add(work()), fails_with("this client has 4"));
  go.set_value();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_EQ(runs, 4);
}

TEST(WorkQueue, TakesWorkForAFreeThreadEvenWithNoRoomToWait) {
  WorkQueue queue({.threads = 2, .max_waiting = 0});
  for (int i = 0; i < 100; ++i) {
    ASSERT_THAT(queue.Add({.run = [] {}}), IsOk());
    ASSERT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  }
}

TEST(WorkQueue, FinishesWhatItHasAfterClose) {
  std::atomic<int> runs{0};
  WorkQueue queue({.threads = 2, .max_waiting = 100});
  for (int i = 0; i < 50; ++i) ASSERT_THAT(queue.Add({.run = [&runs] { ++runs; }}), IsOk());
  queue.Close();
  EXPECT_THAT(queue.Add({.run = [] {}}),
              Fails(absl::StatusCode::kUnavailable, testing::HasSubstr("draining")));
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_EQ(runs, 50);
}

TEST(WorkQueue, GivesUpWaitingAtTheDeadline) {
  std::promise<void> go;
  WorkQueue queue({.threads = 1, .max_waiting = 0});
  ASSERT_THAT(queue.Add({.run = [gone = go.get_future().share()] { gone.wait(); }}), IsOk());
  EXPECT_FALSE(queue.WaitUntilIdle(Clock::now() + std::chrono::milliseconds(5)));
  go.set_value();
}

TEST(WorkQueue, LetsClientsTakeTurns) {
  OneThread work;
  for (const char* name : {"a", "b", "c", "d"}) ASSERT_THAT(work.Add("many", name), IsOk());
  for (const char* name : {"X", "Y"}) ASSERT_THAT(work.Add("few", name), IsOk());
  EXPECT_EQ(work.Order(), "aXbYcd");
}

TEST(WorkQueue, StartsSharedWorkAtTheFirstTurnOfAnyOfItsClients) {
  OneThread work;
  for (const char* name : {"a", "b"}) ASSERT_THAT(work.Add("many", name), IsOk());
  const auto shared = work.Add("many", "S");
  ASSERT_THAT(shared, IsOk());
  ASSERT_THAT(work.Add("many", "c"), IsOk());
  work.Share(*shared, "few");
  work.Share(*shared, "few");  // counts once
  ASSERT_THAT(work.Add("few", "X"), IsOk());
  EXPECT_EQ(work.Order(), "aSbXc");
}

TEST(WorkQueue, WorkLeavesTheLineOfAClientThatNoLongerWaits) {
  OneThread work({.max_of_a_client = 3});
  const auto shared = work.Add("gone", "S");
  ASSERT_THAT(shared, IsOk());
  for (const char* name : {"a", "b"}) ASSERT_THAT(work.Add("gone", name), IsOk());
  ASSERT_THAT(work.Add("stays", "X"), IsOk());
  work.Share(*shared, "stays");
  work.Unshare(*shared, "gone");
  EXPECT_THAT(work.Add("gone", "c"), IsOk());  // its limit counts its own work only
  EXPECT_EQ(work.Order(), "aXbSc");
}

TEST(WorkQueue, WorkThatNobodyWaitsForStaysUntilAnotherClientSharesIt) {
  OneThread work;
  for (const char* name : {"a", "b"}) ASSERT_THAT(work.Add("gone", name), IsOk());
  const auto left = work.Add("gone", "L");
  const auto shared = work.Add("gone", "S");
  ASSERT_THAT(left, IsOk());
  ASSERT_THAT(shared, IsOk());
  work.Unshare(*left, "gone");
  work.Unshare(*shared, "gone");
  work.Share(*shared, "new");
  EXPECT_EQ(work.Order(), "aSbL");
}

TEST(WorkQueue, SharingWhatHasStartedDoesNothing) {
  OneThread work;
  const auto done = work.Add("a", "1");
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(work.Order(), "1");
  work.Share(*done, "b");
  work.Share(0, "b");
}

// Work that runs until it is let go.
class HeldWork {
 public:
  ~HeldWork() { Release(); }
  absl::AnyInvocable<void()> Run() {
    return [this] {
      ++running_;
      released_.wait();
    };
  }
  // Waits until so many run.
  void WaitFor(int running) const {
    const auto deadline = Clock::now() + kLong;
    while (running_ < running && Clock::now() < deadline) std::this_thread::yield();
    ASSERT_EQ(running_, running);
  }
  void Release() {
    if (!std::exchange(is_released_, true)) release_.set_value();
  }

 private:
  std::promise<void> release_;
  const std::shared_future<void> released_ = release_.get_future().share();
  bool is_released_ = false;
  std::atomic<int> running_{0};
};

TEST(WorkQueue, LeavesAThreadToOthersWhoWait) {
  HeldWork greedy;
  HeldWork blocker;
  std::promise<void> begun;
  WorkQueue queue({.threads = 2, .max_waiting = 100});
  ASSERT_THAT(queue.Add({.run = blocker.Run(), .client = "other"}), IsOk());
  ASSERT_THAT(queue.Add({.run = greedy.Run(), .client = "greedy"}), IsOk());
  blocker.WaitFor(1);
  greedy.WaitFor(1);
  // Both wait for the thread that becomes free; "greedy" has its share already.
  ASSERT_THAT(queue.Add({.run = greedy.Run(), .client = "greedy"}), IsOk());
  ASSERT_THAT(queue.Add({.run = [&begun] { begun.set_value(); }, .client = "modest"}), IsOk());
  blocker.Release();
  begun.get_future().wait();
  greedy.WaitFor(2);  // nobody else waits now
  greedy.Release();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
}

// Every turn is over at once.
TEST(WorkQueue, WorkThatOutlastsItsTurnDoesNotKeepOthersWaiting) {
  HeldWork held;
  WorkQueue queue({.threads = 2, .spare_threads = 1, .turn_seconds = 0, .max_waiting = 100});
  std::atomic<bool> third_ran{false};
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(queue.Add({.run = held.Run(), .client = "greedy"}), IsOk());
  }
  held.WaitFor(2);
  ASSERT_THAT(queue.Add({.run = [&third_ran] { third_ran = true; }, .client = "greedy"}), IsOk());
  for (const char* client : {"modest", "other", "modest"}) {
    std::promise<void> done;
    ASSERT_THAT(queue.Add({.run = [&done] { done.set_value(); }, .client = client}), IsOk());
    done.get_future().wait();
  }
  EXPECT_FALSE(third_ran) << "its client has threads, and it was queued before";
  held.Release();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_TRUE(third_ran);
}

TEST(WorkQueue, SpareThreadsWaitForTheEndOfATurn) {
  HeldWork held;
  std::string order;  // written by one thread at a time
  WorkQueue queue({.threads = 1, .spare_threads = 1, .turn_seconds = 1e6, .max_waiting = 100});
  ASSERT_THAT(queue.Add({.run = held.Run(), .client = "first"}), IsOk());
  held.WaitFor(1);
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_THAT(queue.Add({.run = [&order, name] { order += name; }, .client = name}), IsOk());
  }
  EXPECT_EQ(queue.stats().running, 1);
  held.Release();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_EQ(order, "abc");
}

TEST(WorkQueue, RunsShortWorkOnThreadsOfItsOwn) {
  HeldWork held;
  std::promise<void> short_done;
  WorkQueue queue({.threads = 1, .short_threads = 1, .max_waiting = 100});
  ASSERT_THAT(queue.Add({.run = held.Run()}), IsOk());
  held.WaitFor(1);
  std::atomic<bool> long_done{false};
  ASSERT_THAT(queue.Add({.run = [&long_done] { long_done = true; }}), IsOk());
  ASSERT_THAT(queue.Add({.run = [&short_done] { short_done.set_value(); }, .is_short = true}),
              IsOk());
  short_done.get_future().wait();
  EXPECT_FALSE(long_done);
  held.Release();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_TRUE(long_done);
}

TEST(WorkQueue, ShortWorkDoesNotCostItsClientTheTurnOfItsLongWork) {
  HeldWork held;
  std::string order;  // written by the one long thread
  WorkQueue queue({.threads = 1, .short_threads = 1, .max_waiting = 100});
  ASSERT_THAT(queue.Add({.run = held.Run(), .client = "busy"}), IsOk());
  held.WaitFor(1);
  for (const char* client : {"a", "b"}) {
    ASSERT_THAT(queue.Add({.run = [&order, client] { order += client; }, .client = client}),
                IsOk());
  }
  for (int i = 0; i < 3; ++i) {
    std::promise<void> done;
    ASSERT_THAT(queue.Add({.run = [&done] { done.set_value(); }, .client = "a", .is_short = true}),
                IsOk());
    done.get_future().wait();
  }
  held.Release();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_EQ(order, "ab");
}

TEST(WorkQueue, ClientsTakeTurnsWithShortWorkToo) {
  HeldWork held;
  std::string order;  // written by the one short thread
  WorkQueue queue({.threads = 0, .short_threads = 1, .overstay_seconds = 1e6, .max_waiting = 100});
  ASSERT_THAT(queue.Add({.run = held.Run(), .client = "busy", .is_short = true}), IsOk());
  held.WaitFor(1);
  for (const char* name : {"a1", "a2", "a3", "b1", "b2"}) {
    ASSERT_THAT(queue.Add({.run = [&order, name] { order += name; },
                           .client = std::string(name, 1),
                           .is_short = true}),
                IsOk());
  }
  held.Release();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_EQ(order, "a1b1a2b2a3");
}

// Whatever runs overstays at once.
TEST(WorkQueue, AClientWhoseShortWorkOverstaysDoesNotHoldUpOthers) {
  HeldWork held;
  WorkQueue queue({.threads = 1, .short_threads = 1, .overstay_seconds = 0, .max_waiting = 100});
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(queue.Add({.run = held.Run(), .client = "hostile", .is_short = true}), IsOk());
  }
  held.WaitFor(2);
  std::atomic<bool> third_ran{false};
  ASSERT_THAT(
      queue.Add({.run = [&third_ran] { third_ran = true; }, .client = "hostile", .is_short = true}),
      IsOk());
  for (int i = 0; i < 3; ++i) {
    std::promise<void> done;
    ASSERT_THAT(
        queue.Add({.run = [&done] { done.set_value(); }, .client = "honest", .is_short = true}),
        IsOk());
    done.get_future().wait();
  }
  EXPECT_FALSE(third_ran) << "it was queued before";
  held.Release();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_TRUE(third_ran);
}

TEST(WorkQueue, RefusesMoreThanAClientMayHave) {
  OneThread work({.max_of_a_client = 2});
  ASSERT_THAT(work.Add("a", "1"), IsOk());
  ASSERT_THAT(work.Add("a", "2"), IsOk());
  EXPECT_THAT(work.Add("a", "3"),
              Fails(absl::StatusCode::kResourceExhausted, testing::HasSubstr("this client has 2")));
  EXPECT_THAT(work.Add("b", "4"), IsOk());
  EXPECT_EQ(work.Order(), "142");
}

TEST(WorkQueue, RefusesWhatNeedsMoreMemoryThanThereIs) {
  OneThread work({.max_bytes = 100});
  EXPECT_THAT(work.Add("a", "1", 101),
              Fails(absl::StatusCode::kResourceExhausted, testing::HasSubstr("set aside")));
  EXPECT_THAT(work.Add("a", "2", 100), IsOk());
  EXPECT_EQ(work.Order(), "2");
}

TEST(WorkQueue, NeverRunsMoreAtOnceThanMemoryHolds) {
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> most{0};
  {
    WorkQueue queue({.threads = 4, .max_waiting = 1000, .max_bytes = 100});
    for (int i = 0; i < 200; ++i) {
      const int64_t needs = i % 7 == 0 ? 90 : 30;
      ASSERT_THAT(
          queue.Add({.run =
                         [&, needs] {
                           const int64_t now = bytes += needs;
                           int64_t before = most;
                           while (now > before && !most.compare_exchange_weak(before, now)) {
                           }
                           std::this_thread::yield();
                           bytes -= needs;
                         },
                     .client = i % 7 == 0 ? "large" : "small",
                     .bytes = needs}),
          IsOk());
    }
  }
  EXPECT_LE(most, 100);
  EXPECT_GE(most, 60);
}

TEST(WorkQueue, AClientLeavesAQuarterOfTheMemoryToOthers) {
  HeldWork held;
  std::atomic<bool> third_ran{false};
  WorkQueue queue({.threads = 4, .max_waiting = 100, .max_bytes = 100});
  for (int64_t bytes : {50, 25}) {
    ASSERT_THAT(queue.Add({.run = held.Run(), .client = "greedy", .bytes = bytes}), IsOk());
  }
  held.WaitFor(2);
  ASSERT_THAT(
      queue.Add({.run = [&third_ran] { third_ran = true; }, .client = "greedy", .bytes = 1}),
      IsOk());
  for (int i = 0; i < 20; ++i) {
    std::promise<void> done;
    ASSERT_THAT(queue.Add({.run = [&done] { done.set_value(); }, .client = "modest", .bytes = 25}),
                IsOk());
    done.get_future().wait();
  }
  EXPECT_FALSE(third_ran);
  held.Release();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_TRUE(third_ran);
}

// No two of them fit into memory at once.
TEST(WorkQueue, LargeWorkIsOvertakenBySixteenAtMost) {
  HeldWork held;
  std::string order;
  std::atomic<int> overtook{0};
  WorkQueue queue({.threads = 2, .max_waiting = 200, .max_bytes = 100});
  ASSERT_THAT(queue.Add({.run = held.Run(), .client = "first", .bytes = 40}), IsOk());
  held.WaitFor(1);
  ASSERT_THAT(queue.Add({.run = [&order] { order += 'L'; }, .client = "large", .bytes = 100}),
              IsOk());
  for (int i = 0; i < 100; ++i) {
    const auto run = [&order, &overtook] {
      order += 's';
      ++overtook;
    };
    ASSERT_THAT(queue.Add({.run = run, .client = "small", .bytes = 60}), IsOk());
  }
  while (overtook < 16) std::this_thread::yield();
  held.Release();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_EQ(order, std::string(16, 's') + "L" + std::string(84, 's'));
}

TEST(WorkQueue, OneAloneMayTakeAllTheMemory) {
  std::promise<void> done;
  WorkQueue queue({.threads = 2, .max_waiting = 100, .max_bytes = 100});
  ASSERT_THAT(queue.Add({.run = [&done] { done.set_value(); }, .bytes = 100}), IsOk());
  done.get_future().wait();
}

TEST(WorkQueue, MakesRoomByRemovingWorkWhoseCallerHasLeft) {
  std::promise<void> go;
  std::atomic<int> told{0};
  WorkQueue queue({.threads = 1, .max_waiting = 2});
  std::promise<void> begun;
  ASSERT_THAT(queue.Add({.run =
                             [&] {
                               begun.set_value();
                               go.get_future().wait();
                             }}),
              IsOk());
  begun.get_future().wait();
  std::stop_source gone;
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(queue.Add({.run = [&told] { ++told; }, .stop = gone.get_token()}), IsOk());
  }
  EXPECT_THAT(queue.Add({.run = [] {}}), Fails(absl::StatusCode::kResourceExhausted, testing::_));
  gone.request_stop();
  EXPECT_THAT(queue.Add({.run = [] {}}), IsOk());
  EXPECT_EQ(told, 2);  // that it is over
  go.set_value();
}

TEST(WorkQueue, FreesWorkBeforeItIsIdle) {
  std::vector<size_t> running;  // whenever something that the work holds is freed
  WorkQueue queue({.threads = 1, .max_waiting = 0});
  const auto held = [&] {
    return std::shared_ptr<int>(new int(1), [&](const int* value) {
      running.push_back(queue.stats().running);
      delete value;
    });
  };
  ASSERT_THAT(queue.Add({.run = [of_run = held()] { EXPECT_EQ(*of_run, 1); },
                         .drop = [of_drop = held()](const std::vector<std::string>&,
                                                    const absl::Status&) {}}),
              IsOk());
  ASSERT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_THAT(running, testing::ElementsAre(1, 1));
}

}  // namespace
}  // namespace stowage
