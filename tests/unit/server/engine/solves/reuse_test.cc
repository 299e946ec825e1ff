#include "server/engine/solves/reuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "proto/service/origin.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "tests/support/chains.h"
#include "tests/support/counting_observer.h"
#include "tests/support/forged_requests.h"
#include "tests/support/solved_requests.h"
#include "tests/unit/server/engine/new_waiter.h"

namespace stowage {
namespace {

class ReuseTest : public testing::Test {
 protected:
  AnswerPtr Find(const SolveRequest& request) { return FindInMemory(cache_, *Keyed(request)); }

  CountingObserver observer_;
  AnswerCache cache_{{1 << 20}, {}, observer_};
};

TEST_F(ReuseTest, EqualRequestsShareAnAnswer) {
  const CachedAnswerPtr cached = Solve(Request(6));
  cache_.PutInMemory(cached);
  EXPECT_EQ(Find(Request(6)).get(), &cached->answer);
}

TEST_F(ReuseTest, SimulatesTheScheduleOnTheTimesOfTheRequest) {
  const CachedAnswerPtr cached = Solve(Request(6));
  cache_.PutInMemory(cached);
  const AnswerPtr noisy = Find(Request(6, 1.0001));
  ASSERT_NE(noisy, nullptr);
  EXPECT_EQ(noisy->schedule, cached->answer.schedule);
  EXPECT_GT(noisy->prediction.makespan_seconds, cached->answer.prediction.makespan_seconds);
}

TEST_F(ReuseTest, MissesWhereTheScheduleDoesNotFitTheChain) {
  CachedAnswer wrong = *Solve(Request(6));
  wrong.answer.schedule.operations.pop_back();
  cache_.PutInMemory(std::make_shared<const CachedAnswer>(wrong));
  EXPECT_EQ(Find(Request(6)), nullptr);
  EXPECT_EQ(Find(Request(6, 1.0001)), nullptr);
}

TEST_F(ReuseTest, KeepsInfeasibleAnswersForExactlyTheirSizes) {
  SolveRequest tight = Request(6);
  tight.platform.memory_bytes = 1;
  const CachedAnswerPtr cached = Solve(tight);
  ASSERT_EQ(cached->answer.outcome, Outcome::kInfeasible);
  cache_.PutInMemory(cached);
  EXPECT_NE(Find(tight), nullptr);
  tight.platform.memory_bytes = 2;
  EXPECT_EQ(Find(tight), nullptr);
}

TEST_F(ReuseTest, DoesNotAnswerWithWhatWasForged) {
  const CachedAnswerPtr forged = Solve(ForgedRequest());
  ASSERT_EQ(forged->answer.outcome, Outcome::kInfeasible);
  ASSERT_NE(Solve(VictimRequest())->answer.outcome, Outcome::kInfeasible);
  cache_.PutInMemory(forged);
  EXPECT_EQ(Find(VictimRequest()), nullptr);
}

// Returns one answer, whatever the key.
class OneAnswerTier final : public CacheTier {
 public:
  explicit OneAnswerTier(CachedAnswerPtr cached) : cached_(std::move(cached)) {}
  absl::StatusOr<CachedAnswerPtr> Get(const Fingerprint&) override { return cached_; }
  absl::Status Put(CachedAnswerPtr) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> Remove(const Fingerprint&) override { return 0; }
  CacheStats stats() const override { return {}; }

 private:
  const CachedAnswerPtr cached_;
};

CachedAnswerPtr FindInTier(const SolveRequest& request, CachedAnswerPtr cached) {
  CountingObserver observer;
  OneAnswerTier tier(std::move(cached));
  AnswerCache cache({1 << 20}, {{"tier", Origin::Source::kDiskCache, &tier}}, observer);
  return FindInTiers(cache, *Keyed(request), "asker").cached;
}

TEST(AnswersOfATier, AreUsedForTheirOwnRequestOnly) {
  EXPECT_NE(FindInTier(Request(6), Solve(Request(6))), nullptr);
  EXPECT_EQ(FindInTier(Request(6), Solve(Request(7))), nullptr);
}

TEST(AnswersOfATier, NeverSayThatNothingFits) {
  SolveRequest tight = Request(6);
  tight.platform.memory_bytes = FloorOfMemory(tight.chain).bytes - 1;
  const CachedAnswerPtr infeasible = Solve(tight);
  ASSERT_EQ(infeasible->answer.outcome, Outcome::kInfeasible);
  EXPECT_EQ(FindInTier(tight, infeasible), nullptr);
}

// With exact times and as many slots as bytes nothing is rounded. A schedule outside rotor's class
// is faster, so that the lower bound proves nothing.
SolveRequest ExactRequest() {
  SolveRequest request = Request(6);
  request.chain = NonPersistentChain(5);
  request.platform.memory_bytes = 9;
  request.options = {.memory_slots = 1000, .time_precision = 0};
  return request;
}

TEST(AnswersOfATier, AreBelievedInNothingButWhatTheirScheduleShows) {
  CachedAnswer lie = *Solve(ExactRequest());
  ASSERT_FALSE(MeetsBound(lie.answer.prediction));
  lie.answer.outcome = Outcome::kOptimal;
  lie.answer.guarantee = Guarantee::kOptimal;
  lie.answer.minimum_memory_bytes = FloorOfMemory(ExactRequest().chain).bytes;
  lie.answer.explanation.notes = {"buy more memory\x1b[2J"};
  lie.answer.prediction.makespan_seconds = 1e-6;
  lie.answer.rounding_loss.emplace();
  const CachedAnswerPtr found =
      FindInTier(ExactRequest(), std::make_shared<const CachedAnswer>(lie));
  ASSERT_NE(found, nullptr);
  const Answer& answer = found->answer;
  EXPECT_EQ(answer.outcome, Outcome::kFeasible);
  EXPECT_EQ(answer.guarantee, Guarantee::kHeuristic);
  EXPECT_EQ(answer.minimum_memory_bytes, std::nullopt);
  EXPECT_FALSE(answer.rounding_loss.has_value());
  ASSERT_EQ(answer.explanation.notes.size(), 1);
  EXPECT_THAT(answer.explanation.notes[0], testing::HasSubstr("kept from an earlier solve"));
  EXPECT_EQ(answer.prediction.makespan_seconds,
            Solve(ExactRequest())->answer.prediction.makespan_seconds);
}

TEST(AnswersOfATier, AreOptimalWhereTheyMeetTheLowerBound) {
  SolveRequest roomy = Request(6);
  roomy.platform.memory_bytes = StoreAllPeakBytes(roomy.chain);
  CachedAnswer modest = *Solve(roomy);
  modest.answer.outcome = Outcome::kFeasible;
  modest.answer.guarantee = Guarantee::kUpToRounding;
  const CachedAnswerPtr found = FindInTier(roomy, std::make_shared<const CachedAnswer>(modest));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->answer.outcome, Outcome::kOptimal);
  EXPECT_EQ(found->answer.guarantee, Guarantee::kOptimal);
  EXPECT_TRUE(found->answer.explanation.notes.empty());
}

TEST(AnswersOfATier, GetACloserBoundOnRequest) {
  SolveRequest request = Request(6);
  request.chain = EqualChain(10);
  request.platform.memory_bytes = 150;
  const CachedAnswerPtr found = FindInTier(request, Solve(request));
  ASSERT_NE(found, nullptr);
  const CachedAnswerPtr closer = WithCloserBound(request, *found, /*stop=*/{});
  ASSERT_NE(closer, nullptr);
  EXPECT_GT(closer->answer.prediction.lower_bound_seconds,
            found->answer.prediction.lower_bound_seconds);
  EXPECT_EQ(closer->answer.schedule, found->answer.schedule);
  EXPECT_EQ(closer->owner, "asker");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(WithCloserBound(request, *found, stop.get_token()), nullptr);
}

TEST(AnswersOfATier, AreAMissWhereTheRoundingLossIsAskedFor) {
  SolveRequest request = Request(6);
  request.options.report_rounding_loss = true;
  EXPECT_EQ(FindInTier(request, Solve(request)), nullptr);
}

TEST(AnswersOfATier, AreOfASolver) {
  CachedAnswer lie = *Solve(Request(6));
  for (const char* name : {"", "a solver\x1b[2J"}) {
    lie.answer.solver = name;
    EXPECT_EQ(FindInTier(Request(6), std::make_shared<const CachedAnswer>(lie)), nullptr);
  }
}

TEST(AnswersOfATier, CountAsThoseOfWhoAsks) {
  const CachedAnswerPtr solved = Solve(Request(6));
  ASSERT_EQ(solved->owner, "client");
  EXPECT_EQ(FindInTier(Request(6), solved)->owner, "asker");
}

}  // namespace
}  // namespace stowage
