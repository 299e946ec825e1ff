#include "solver/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace stowage {
namespace {

TEST(ThreadPool, DividesTheWorkAmongConcurrentCalls) {
  ThreadPool helpers(3);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> left{1000};
    std::atomic<int> done{0};
    helpers.RunOnFreeThreads([&] {
      while (left.fetch_sub(1) > 0) done.fetch_add(1);
    });
    EXPECT_EQ(done.load(), 1000);
  }
}

TEST(ThreadPool, RunsTheBodyOnAHelperWhileTheCallerIsInIt) {
  ThreadPool helpers(1);
  std::atomic<int> inside{0};
  // Returns only when two threads run the body at the same time.
  helpers.RunOnFreeThreads([&] {
    inside.fetch_add(1);
    while (inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside.load(), 2);
}

TEST(ThreadPool, ServesConcurrentCallers) {
  ThreadPool helpers(2);
  std::atomic<int> calls{0};
  std::vector<std::thread> callers;
  callers.reserve(4);
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<int> mine{0};
        helpers.RunOnFreeThreads([&] { mine.fetch_add(1); });
        EXPECT_GE(mine.load(), 1);
        calls.fetch_add(1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(calls.load(), 800);
}

TEST(ThreadPool, RunsOnTheCallerWithoutHelpers) {
  ThreadPool helpers(0);
  int calls = 0;
  helpers.RunOnFreeThreads([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace stowage
