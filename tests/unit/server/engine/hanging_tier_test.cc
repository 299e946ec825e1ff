// What a tier that hangs may not hold up: hits in memory, answers at deadlines, new solves.
#include "tests/support/hanging_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "proto/service/origin.h"
#include "server/cache/tiers/guarded_tier.h"
#include "tests/unit/server/engine/engine_fixture.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

// The tier hangs until the test lets it go, for ten seconds or for a minute.
class HangingTierTest : public EngineTest {
 protected:
  ~HangingTierTest() override { gate_.Open(); }

  ListenerPtr SendHere(SolveRequest request, Caller caller = {}) {
    auto listener = std::make_shared<RecordingListener>();
    here_.Solve(std::move(request), std::move(caller), listener);
    return listener;
  }
  Origin::Source SourceOf(SolveRequest request) {
    const auto result = SendHere(std::move(request))->Wait();
    EXPECT_THAT(result, IsOk());
    return result.ok() ? result->origin.source : Origin::Source::kCoalesced;
  }

  FakeTier store_;
  HangingTier::Gate gate_;
  GuardedTier guard_{std::make_unique<HangingTier>(store_, gate_),
                     {.name = "disk",
                      .timeout = std::chrono::milliseconds(100),
                      .breaker = {.failures = 2, .pause = std::chrono::milliseconds(1)},
                      .max_writes = 4},
                     observer_};
  AnswerCache cached_here_{{2 << 20}, {{"disk", Origin::Source::kDiskCache, &guard_}}, observer_};
  Engine here_{{.threads = 2,
                .queue_length = 100,
                .solve_bytes = int64_t{16} << 30,
                .all_solves_bytes = int64_t{64} << 30},
               &cached_here_,
               &observer_};
};

TEST_F(HangingTierTest, HoldsUpNothing) {
  EXPECT_EQ(SourceOf(Quick(0)), Origin::Source::kSolved);
  gate_.Close();
  EXPECT_EQ(SourceOf(Quick(0)), Origin::Source::kMemoryCache);

  std::vector<ListenerPtr> fresh;
  for (int i = 1; i <= 20; ++i) fresh.push_back(SendHere(Quick(i)));
  for (const ListenerPtr& listener : fresh) {
    const auto result = listener->Wait();
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->origin.source, Origin::Source::kSolved);
  }
  EXPECT_TRUE(guard_.guard_stats().is_open);
  EXPECT_EQ(guard_.guard_stats().opened, 1);
  EXPECT_GT(guard_.guard_stats().skipped_reads, 0);
  EXPECT_GT(observer_.failures, 0);

  SolveRequest hasty = SlowWithResults();
  hasty.options.time_budget_seconds = 0.2;
  const auto in_time = SendHere(hasty)->Wait();
  ASSERT_THAT(in_time, IsOk());
  EXPECT_EQ(in_time->answer->guarantee, Guarantee::kTimeRanOut);
  const auto before_deadline =
      SendHere(SlowWithResults(), {.deadline = Clock::now() + std::chrono::seconds(1)})->Wait();
  EXPECT_THAT(before_deadline, IsOk());
  EXPECT_EQ(SourceOf(Quick(7)), Origin::Source::kMemoryCache);
}

// Without a guard, so that nothing gives up the look-ups: deadlines are not on their threads.
TEST_F(HangingTierTest, KeepsATimeBudgetWhileAllLookUpsHang) {
  tier_.Pause();
  std::vector<ListenerPtr> hanging;
  for (int i = 0; i < 2; ++i) hanging.push_back(Send(Quick(i), {.client = "other"}));
  while (tier_.blocked() < 2) std::this_thread::yield();
  SolveRequest request = SlowWithResults();
  request.options.time_budget_seconds = 0.01;
  const auto result = Send(request)->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->answer->guarantee, Guarantee::kTimeRanOut);
  EXPECT_EQ(result->origin.solve_seconds, 0) << "it was not solved";
  tier_.Resume();
  for (const ListenerPtr& listener : hanging) EXPECT_THAT(listener->Wait(), IsOk());
}

TEST_F(HangingTierTest, IsUsedAgainOnceItAnswers) {
  gate_.Close();
  for (int i = 0; !guard_.guard_stats().is_open; ++i) {
    EXPECT_EQ(SourceOf(Quick(i)), Origin::Source::kSolved);
  }
  gate_.Open();
  for (int i = 100; guard_.guard_stats().is_open; ++i) {
    EXPECT_EQ(SourceOf(Quick(i)), Origin::Source::kSolved);
  }
  for (int i = 10'000; store_.stats().entries == 0; ++i) {
    EXPECT_EQ(SourceOf(Quick(i)), Origin::Source::kSolved);
  }
}

}  // namespace
}  // namespace stowage
