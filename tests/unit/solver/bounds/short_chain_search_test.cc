#include "solver/bounds/short_chain_search.h"

#include <gtest/gtest.h>

#include <stop_token>

#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

constexpr double kSlow = 1e6;

// Storing everything takes 10 + 12 * 30 bytes.
TEST(ShortChainSearch, ProvesThatNothingIsFasterThanEachStageOnce) {
  const auto found = SearchShortChain(EqualChain(12), {.memory_bytes = 1000, .below_seconds = 36});
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->faster.has_value());
  EXPECT_EQ(found->seconds, 36);
}

TEST(ShortChainSearch, FindsASchedule) {
  const auto found = SearchShortChain(EqualChain(2), {.memory_bytes = 70, .below_seconds = kSlow});
  ASSERT_TRUE(found.has_value());
  ASSERT_TRUE(found->faster.has_value());
  EXPECT_EQ(*found->faster, Ops("C1 S2 S3 B3 B2 S1 B1"));
  EXPECT_EQ(found->seconds, 7);
}

TEST(ShortChainSearch, EndsWhereItHasTooManyStates) {
  const Chain chain = EqualChain(12);
  EXPECT_FALSE(
      SearchShortChain(chain, {.memory_bytes = 100, .below_seconds = kSlow, .max_states = 1000})
          .has_value());
}

TEST(ShortChainSearch, LeavesOutLongChainsAndGraphMode) {
  EXPECT_FALSE(
      SearchShortChain(EqualChain(13), {.memory_bytes = 1000, .below_seconds = kSlow}).has_value());
  Chain modes = EqualChain(2);
  modes.stages[0].graph = GraphCosts{1, 1, 30, 0, 0};
  EXPECT_FALSE(SearchShortChain(modes, {.memory_bytes = 1000, .below_seconds = kSlow}).has_value());
}

TEST(ShortChainSearch, StopsOnRequest) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(SearchShortChain(EqualChain(12), {.memory_bytes = 100, .below_seconds = kSlow},
                                stop.get_token())
                   .has_value());
}

// RR-9302, section 4.1: 2n + 4 instead of the 3n + 3 of every persistent schedule.
TEST(ShortChainSearch, GivesAutoAScheduleThatIsNotPersistent) {
  const auto answer =
      AnswerRequest({NonPersistentChain(4), Memory(9), "auto", {.time_precision = 0}}, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->outcome, Outcome::kOptimal);
  EXPECT_EQ(answer->prediction.makespan_seconds, 12);
  EXPECT_EQ(answer->prediction.gap, 0);
  EXPECT_EQ(answer->solver, "auto");
}

}  // namespace
}  // namespace stowage
