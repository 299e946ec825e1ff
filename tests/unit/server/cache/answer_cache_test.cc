#include "server/cache/answer_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "solver/algorithms/solver.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/forged_requests.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

class NullObserver final : public Observer {
 public:
  void CallBegan(const std::string&) override {}
  void CallEnded(const CallRecord&) override {}
  void ExecutionReported(const ExecutionReport&, const CallRecord&) override {}
  void OperatorActed(const OperatorAction& /*action*/) override {}
  void StoreFailed(const absl::Status&) override {}
  void CredentialsReplaced(const std::string&, const absl::Status&) override {}
};

// Different stages make different requests.
SolveRequest Request(int stages, double time_factor = 1) {
  SolveRequest request{
      EqualChain(stages), Memory(int64_t{15} * stages), "rotor", {.time_precision = 0.01}};
  for (Stage& stage : request.chain.stages) stage.forward_seconds *= time_factor;
  return request;
}

CacheKeys KeysFor(const SolveRequest& request) {
  return CacheKeysOf(request, Instance::Rounded(request));
}

CachedAnswerPtr Solve(const SolveRequest& request) {
  absl::StatusOr<Answer> answer = AnswerRequest(request, SolveContext());
  EXPECT_THAT(answer, IsOk());
  return std::make_shared<const CachedAnswer>(
      CachedAnswer{*std::move(answer), KeysFor(request), "client", /*is_explained=*/true});
}

class AnswerCacheTest : public testing::Test {
 protected:
  AnswerPtr Find(const SolveRequest& request) {
    return cache_.FindInMemory(request, KeysFor(request));
  }

  NullObserver observer_;
  AnswerCache cache_{{1 << 20}, nullptr, observer_};
};

TEST_F(AnswerCacheTest, FindsWhatWasPut) {
  EXPECT_EQ(Find(Request(6)), nullptr);
  const CachedAnswerPtr cached = Solve(Request(6));
  cache_.PutInMemory(cached);
  EXPECT_EQ(Find(Request(6)).get(), &cached->answer) << "an equal request shares the answer";
  EXPECT_EQ(Find(Request(7)), nullptr);
  EXPECT_EQ(cache_.memory_stats().entries, 1);
}

TEST_F(AnswerCacheTest, SimulatesTheScheduleOnTheTimesOfTheRequest) {
  const CachedAnswerPtr cached = Solve(Request(6));
  cache_.PutInMemory(cached);
  const AnswerPtr noisy = Find(Request(6, 1.0001));
  ASSERT_NE(noisy, nullptr);
  EXPECT_EQ(noisy->schedule, cached->answer.schedule);
  EXPECT_GT(noisy->prediction.makespan_seconds, cached->answer.prediction.makespan_seconds);
}

TEST_F(AnswerCacheTest, MissesWhereTheScheduleDoesNotFitTheChain) {
  CachedAnswer wrong = *Solve(Request(6));
  wrong.answer.schedule.operations.pop_back();
  cache_.PutInMemory(std::make_shared<const CachedAnswer>(wrong));
  EXPECT_EQ(Find(Request(6)), nullptr);
  EXPECT_EQ(Find(Request(6, 1.0001)), nullptr);
}

TEST_F(AnswerCacheTest, KeepsInfeasibleAnswersForExactlyTheirSizes) {
  SolveRequest tight = Request(6);
  tight.platform.memory_bytes = 1;
  const CachedAnswerPtr cached = Solve(tight);
  ASSERT_EQ(cached->answer.outcome, Outcome::kInfeasible);
  cache_.PutInMemory(cached);
  EXPECT_NE(Find(tight), nullptr);
  tight.platform.memory_bytes = 2;
  EXPECT_EQ(Find(tight), nullptr);
}

TEST_F(AnswerCacheTest, DoesNotAnswerWithWhatWasForged) {
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
  NullObserver observer;
  OneAnswerTier tier(std::move(cached));
  AnswerCache cache({1 << 20}, &tier, observer);
  return cache.FindInTier(request, KeysFor(request), "asker");
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
  lie.answer.limit = Limit::kNone;
  lie.answer.minimum_memory_bytes = FloorOfMemory(ExactRequest().chain).bytes;
  lie.answer.explanation.notes = {"buy more memory\x1b[2J"};
  lie.answer.prediction.makespan_seconds = 1e-6;
  lie.answer.rounding_loss.emplace();
  const CachedAnswerPtr found =
      FindInTier(ExactRequest(), std::make_shared<const CachedAnswer>(lie));
  ASSERT_NE(found, nullptr);
  const Answer& answer = found->answer;
  EXPECT_EQ(answer.outcome, Outcome::kFeasible);
  EXPECT_EQ(answer.limit, Limit::kHeuristic);
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
  modest.answer.limit = Limit::kRounding;
  const CachedAnswerPtr found = FindInTier(roomy, std::make_shared<const CachedAnswer>(modest));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->answer.outcome, Outcome::kOptimal);
  EXPECT_EQ(found->answer.limit, Limit::kNone);
  EXPECT_TRUE(found->answer.explanation.notes.empty());
}

TEST(AnswersOfATier, AreAMissWhereTheRoundingLossIsAskedFor) {
  SolveRequest request = Request(6);
  request.options.report_rounding_loss = true;
  EXPECT_EQ(FindInTier(request, Solve(request)), nullptr);
}

// Of which it would believe nothing.
TEST(AnswersOfATier, AreNotStoredWhereTheyWouldNotBeUsed) {
  class CountingTier final : public CacheTier {
   public:
    absl::StatusOr<CachedAnswerPtr> Get(const Fingerprint&) override { return CachedAnswerPtr(); }
    absl::Status Put(CachedAnswerPtr) override {
      ++puts_;
      return absl::OkStatus();
    }
    absl::StatusOr<int64_t> Remove(const Fingerprint&) override { return 0; }
    CacheStats stats() const override { return {.entries = puts_}; }

   private:
    int64_t puts_ = 0;
  };
  NullObserver observer;
  CountingTier tier;
  AnswerCache cache({1 << 20}, &tier, observer);
  SolveRequest tight = Request(6);
  tight.platform.memory_bytes = 1;
  cache.PutInTier(Solve(tight));
  CachedAnswer with_loss = *Solve(Request(6));
  with_loss.answer.rounding_loss.emplace();
  cache.PutInTier(std::make_shared<const CachedAnswer>(with_loss));
  EXPECT_EQ(tier.stats().entries, 0);
  cache.PutInTier(Solve(Request(6)));
  EXPECT_EQ(tier.stats().entries, 1);
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

TEST_F(AnswerCacheTest, LeavesTheAnswersAndResponsesOfAnotherOwner) {
  const CachedAnswerPtr victims = Solve(Request(6));
  CachedAnswer hostile = *victims;
  hostile.owner = "hostile";
  cache_.PutInMemory(victims);
  cache_.PutInMemory(std::make_shared<const CachedAnswer>(hostile));
  EXPECT_EQ(Find(Request(6)).get(), &victims->answer);
  const CachedAnswerPtr anew = Solve(Request(6));
  cache_.PutInMemory(anew);
  EXPECT_EQ(Find(Request(6)).get(), &anew->answer) << "its owner replaces it";

  cache_.PutResponse({.request_text = "request", .response = "bytes", .owner = "victim"});
  cache_.PutResponse({.request_text = "request", .response = "other", .owner = "hostile"});
  EXPECT_EQ(cache_.FindResponse("request")->response, "bytes");
}

// An attacker who asks for all that another has, and then fills its own share.
TEST_F(AnswerCacheTest, AClientCannotTakeOverTheAnswersOfOthersAndEvictThem) {
  AnswerCache cache({.bytes = 4 << 20, .client_share = 0.5}, nullptr, observer_);
  const auto put = [&cache](int stages, const char* owner, size_t operations) {
    CachedAnswer answer = *Solve(Request(4));
    answer.keys = KeysFor(Request(stages));
    answer.owner = owner;
    if (operations > 0) answer.answer.schedule.operations.resize(operations);
    cache.PutInMemory(std::make_shared<const CachedAnswer>(answer));
  };
  for (const char* owner : {"honest", "hostile"}) {
    for (int stages = 4; stages < 20; ++stages) put(stages, owner, 0);
  }
  const int64_t honest_entries = cache.memory_stats().entries;
  ASSERT_EQ(honest_entries, 16);
  for (int stages = 20; stages < 400; ++stages) put(stages, "hostile", 1000);
  EXPECT_GT(cache.memory_stats().evictions, 0);
  // To remove is to count, whatever the schedules fit.
  int64_t left = 0;
  for (int stages = 4; stages < 20; ++stages) {
    left += *cache.Remove(KeysFor(Request(stages)).rounded);
  }
  EXPECT_EQ(left, honest_entries);
}

TEST_F(AnswerCacheTest, EvictsTheLeastRecentlyUsedAnswers) {
  for (int stages = 4; stages < 400; ++stages) {
    CachedAnswer large = *Solve(Request(4));
    large.keys = KeysFor(Request(stages));
    large.answer.schedule.operations.resize(1000);
    cache_.PutInMemory(std::make_shared<const CachedAnswer>(large));
    ASSERT_LE(cache_.memory_stats().bytes, 1 << 19) << "a half of the cache is for answers";
  }
  const CacheStats stats = cache_.memory_stats();
  EXPECT_GT(stats.evictions, 0);
  EXPECT_EQ(stats.entries + stats.evictions, 396);
  EXPECT_GT(stats.bytes, 1 << 18) << "it holds less than it could";
}

// A client that fills the cache evicts its own answers once it has its share.
TEST_F(AnswerCacheTest, AClientCannotEvictAllAnswersOfOthers) {
  AnswerCache cache({.bytes = 4 << 20, .client_share = 0.5}, nullptr, observer_);
  for (int stages = 4; stages < 20; ++stages) {
    CachedAnswer answer = *Solve(Request(stages));
    answer.owner = "honest";
    cache.PutInMemory(std::make_shared<const CachedAnswer>(answer));
  }
  const auto count = [&cache] {
    int found = 0;
    for (int stages = 4; stages < 20; ++stages) {
      found += cache.FindInMemory(Request(stages), KeysFor(Request(stages))) != nullptr ? 1 : 0;
    }
    return found;
  };
  ASSERT_EQ(count(), 16);
  for (int stages = 20; stages < 400; ++stages) {
    CachedAnswer large = *Solve(Request(4));
    large.keys = KeysFor(Request(stages));
    large.owner = "hostile";
    large.answer.schedule.operations.resize(1000);
    cache.PutInMemory(std::make_shared<const CachedAnswer>(large));
  }
  EXPECT_GT(cache.memory_stats().evictions, 0);
  EXPECT_EQ(count(), 16);
}

TEST_F(AnswerCacheTest, RemovesAnAnswerAndItsResponses) {
  cache_.PutInMemory(Solve(Request(6)));
  cache_.PutInMemory(Solve(Request(7)));
  const Fingerprint rounded = KeysFor(Request(6)).rounded;
  CachedResponse response = {.request_text = "request", .response = "bytes"};
  response.answer.origin.fingerprint = ToHex(rounded);
  cache_.PutResponse(response);
  const auto removed = cache_.Remove(rounded);
  ASSERT_THAT(removed, IsOk());
  EXPECT_EQ(*removed, 1);
  EXPECT_EQ(Find(Request(6)), nullptr);
  EXPECT_NE(Find(Request(7)), nullptr);
  EXPECT_EQ(cache_.FindResponse("request"), nullptr);
  EXPECT_EQ(*cache_.Remove(rounded), 0);
}

TEST_F(AnswerCacheTest, RemovesAResponseThatHasNoAnswer) {
  const Fingerprint of_text = FingerprintOf("a frontier");
  CachedResponse frontier = {.request_text = "a frontier", .response = "bytes"};
  frontier.answer.origin.fingerprint = ToHex(of_text);
  cache_.PutResponse(frontier);
  EXPECT_EQ(*cache_.Remove(FingerprintOf("another")), 0);
  EXPECT_NE(cache_.FindResponse("a frontier"), nullptr);
  EXPECT_EQ(*cache_.Remove(of_text), 1);
  EXPECT_EQ(cache_.FindResponse("a frontier"), nullptr);
}

TEST_F(AnswerCacheTest, FindsResponsesByTheWholeTextOfTheirRequest) {
  EXPECT_EQ(cache_.FindResponse("request"), nullptr);
  cache_.PutResponse({.request_text = "request", .response = "bytes", .stages = 6});
  const CachedResponsePtr found = cache_.FindResponse("request");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->response, "bytes");
  EXPECT_EQ(found->stages, 6);
  EXPECT_EQ(cache_.FindResponse("reques"), nullptr);
  cache_.PutResponse({.request_text = "request", .response = "other"});
  EXPECT_EQ(cache_.FindResponse("request")->response, "other");
  EXPECT_EQ(cache_.response_stats().entries, 1);
  cache_.PutResponse({.request_text = "large", .response = std::string(1 << 20, 'x')});
  EXPECT_EQ(cache_.FindResponse("large"), nullptr) << "it is larger than all of the cache";
}

TEST_F(AnswerCacheTest, ServesManyThreads) {
  std::vector<CachedAnswerPtr> answers;
  for (int stages = 4; stages < 12; ++stages) answers.push_back(Solve(Request(stages)));
  std::vector<std::jthread> threads;
  for (size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, &answers, thread] {
      for (size_t i = 0; i < 100; ++i) {
        const size_t at = (thread * 31 + i) % answers.size();
        cache_.PutInMemory(answers[at]);
        const AnswerPtr found = Find(Request(static_cast<int>(at) + 4));
        ASSERT_NE(found, nullptr);
        EXPECT_EQ(found->schedule, answers[at]->answer.schedule);
        cache_.PutResponse({.request_text = std::to_string(at), .response = "bytes"});
        EXPECT_NE(cache_.FindResponse(std::to_string(at)), nullptr);
      }
    });
  }
}

}  // namespace
}  // namespace stowage
