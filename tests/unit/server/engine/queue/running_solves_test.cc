#include "server/engine/queue/running_solves.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

namespace stowage {
namespace {

TEST(RunningSolves, ListsEachRunningSolve) {
  RunningSolves solves;
  EXPECT_TRUE(solves.List().empty());
  RunningSolves::Place place(solves, "rotor", 40);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  place.Progressed(0.25);
  const std::vector<RunningSolve> list = solves.List();
  ASSERT_EQ(list.size(), 1);
  EXPECT_EQ(list[0].thread, 0);
  EXPECT_EQ(list[0].solver, "rotor");
  EXPECT_EQ(list[0].stages, 40);
  EXPECT_EQ(list[0].fraction, 0.25);
  EXPECT_GE(list[0].seconds, 0.002);
}

TEST(RunningSolves, TakesTheLowestPlaceThatIsFreeAndBeginsItAnew) {
  RunningSolves solves;
  std::optional<RunningSolves::Place> first(std::in_place, solves, "rotor", 1);
  const RunningSolves::Place second(solves, "auto", 2);
  first->Progressed(0.9);
  first.reset();
  ASSERT_EQ(solves.List().size(), 1);
  EXPECT_EQ(solves.List()[0].thread, 1);
  const RunningSolves::Place third(solves, "pofo", 3);
  const std::vector<RunningSolve> list = solves.List();
  ASSERT_EQ(list.size(), 2);
  EXPECT_EQ(list[0].solver, "pofo");
  EXPECT_EQ(list[0].fraction, 0);
  EXPECT_EQ(list[1].solver, "auto");
}

// Under ThreadSanitizer this is about races, elsewhere about the bound.
TEST(RunningSolves, HaveNoMorePlacesThanRunAtOnce) {
  RunningSolves solves;
  std::atomic<bool> over{false};
  std::vector<std::jthread> threads;
  std::atomic<int> highest{0};
  threads.emplace_back([&] {
    while (!over) {
      for (const RunningSolve& solve : solves.List()) {
        if (solve.thread > highest) highest = solve.thread;
      }
    }
  });
  {
    std::vector<std::jthread> solvers;
    solvers.reserve(3);
    for (int i = 0; i < 3; ++i) {
      solvers.emplace_back([&solves] {
        for (int round = 0; round < 500; ++round) {
          RunningSolves::Place place(solves, "rotor", round);
          place.Progressed(round / 500.0);
        }
      });
    }
  }
  over = true;
  threads.clear();
  EXPECT_LT(highest, 3);
  EXPECT_TRUE(solves.List().empty());
}

}  // namespace
}  // namespace stowage
