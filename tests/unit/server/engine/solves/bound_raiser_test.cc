#include "server/engine/solves/bound_raiser.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "tests/support/status_matchers.h"
#include "tests/unit/server/engine/engine_fixture.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

// A new server whose tier has the answers that another one found.
class BoundRaiserTest : public EngineTest {
 protected:
  void Start(const EngineOptions& options) { next_.emplace(options, &memory_, &observer_); }
  // Has one solver thread, which is busy until Free().
  void StartBusy() {
    Start({.threads = 1,
           .solve_bytes = int64_t{16} << 30,
           .all_solves_bytes = int64_t{64} << 30,
           .turn_seconds = 1e6});
    busy_ = std::make_shared<RecordingListener>();
    next_->Solve(Endless(), {.stop = caller_.get_token()}, busy_);
    while (next_->stats().solves.running == 0) std::this_thread::yield();
  }
  void Free() {
    caller_.request_stop();
    EXPECT_THAT(busy_->Wait(), Fails(absl::StatusCode::kCancelled, testing::_));
  }
  SolveResult Ask(SolveRequest request) {
    auto listener = std::make_shared<RecordingListener>();
    next_->Solve(std::move(request), {}, listener);
    absl::StatusOr<SolveResult> result = listener->Wait();
    EXPECT_THAT(result, IsOk());
    return result.ok() ? *std::move(result) : SolveResult{};
  }
  void WaitForAnswersInMemory(int64_t count) {
    while (memory_.memory_stats().entries < count) std::this_thread::yield();
  }

  std::stop_source caller_;
  ListenerPtr busy_;
  AnswerCache memory_{{64 << 20}, {{"disk", Origin::Source::kDiskCache, &tier_}}, observer_};
  std::optional<Engine> next_;
};

// The closer bound takes ten times as long as all the rest of such an answer.
TEST_F(BoundRaiserTest, RaisesTheBoundOfWhatATierHadAfterTheAnswer) {
  const SolveResult first = Answered(Quick());
  engine_.Drain(Clock::now() + kLong);
  Start({.threads = 1});
  const SolveResult at_once = Ask(Quick());
  EXPECT_EQ(at_once.origin.source, Origin::Source::kDiskCache);
  const double close = first.answer->prediction.lower_bound_seconds;
  EXPECT_LT(at_once.answer->prediction.lower_bound_seconds, close);
  WaitForAnswersInMemory(1);
  const SolveResult later = Ask(Quick());
  EXPECT_EQ(later.origin.source, Origin::Source::kMemoryCache);
  EXPECT_GE(later.answer->prediction.lower_bound_seconds, close);
  EXPECT_EQ(later.answer->outcome, first.answer->outcome);
}

TEST_F(BoundRaiserTest, RaisesBoundsWithLittleMemoryForSolves) {
  Answered(Quick());
  engine_.Drain(Clock::now() + kLong);
  Start({.threads = 1, .solve_bytes = 16 << 20, .all_solves_bytes = 16 << 20});
  EXPECT_EQ(Ask(Quick()).origin.source, Origin::Source::kDiskCache);
  WaitForAnswersInMemory(1);
  EXPECT_EQ(Ask(Quick()).origin.source, Origin::Source::kMemoryCache);
}

TEST_F(BoundRaiserTest, TakesNoMoreWhereTooManyWait) {
  constexpr int kMax = BoundRaiser::kMaxWaiting;
  constexpr int kAsked = kMax + 3;
  for (int i = 0; i < kAsked; ++i) Answered(Quick(i));
  engine_.Drain(Clock::now() + kLong);
  StartBusy();
  for (int i = 0; i < kAsked; ++i) {
    EXPECT_EQ(Ask(Quick(i)).origin.source, Origin::Source::kDiskCache) << i;
  }
  EXPECT_EQ(memory_.memory_stats().entries, 0);
  Free();
  WaitForAnswersInMemory(kMax);
  EXPECT_EQ(Ask(Quick(kMax - 1)).origin.source, Origin::Source::kMemoryCache);
  EXPECT_EQ(Ask(Quick(kMax)).origin.source, Origin::Source::kDiskCache) << "not among those";
  WaitForAnswersInMemory(kMax + 1);
  EXPECT_EQ(Ask(Quick(kMax)).origin.source, Origin::Source::kMemoryCache);
}

TEST_F(BoundRaiserTest, ForgetsWhatAnOperatorDrops) {
  const Fingerprint dropped = CacheKeysOf(Quick(0), Instance::Rounded(Quick(0))).rounded;
  for (int i = 0; i < 2; ++i) Answered(Quick(i));
  engine_.Drain(Clock::now() + kLong);
  StartBusy();
  for (int i = 0; i < 2; ++i) Ask(Quick(i));
  EXPECT_EQ(next_->DropAnswers(dropped).value(), 1) << "in the tier";
  Free();
  EXPECT_EQ(Ask(Quick(0)).origin.source, Origin::Source::kSolved);
  EXPECT_EQ(Ask(Quick(1)).origin.source, Origin::Source::kDiskCache);
  WaitForAnswersInMemory(2);
}

}  // namespace
}  // namespace stowage
