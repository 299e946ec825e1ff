#include "server/cache/answer_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "solver/algorithms/solver.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

class NullObserver final : public Observer {
 public:
  void CallBegan(const std::string&) override {}
  void CallEnded(const CallRecord&) override {}
  void ExecutionReported(const ExecutionReport&, const std::string&) override {}
  void StoreFailed(const absl::Status&) override {}
  void CredentialsReplaced(const std::string&, const absl::Status&) override {}
};

// Different stages make different requests.
SolveRequest Request(int stages, double time_factor = 1) {
  SolveRequest request{EqualChain(stages), Memory(15 * stages), "rotor", {.time_precision = 0.01}};
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
      CachedAnswer{*std::move(answer), KeysFor(request), /*is_explained=*/true});
}

class AnswerCacheTest : public testing::Test {
 protected:
  AnswerPtr Find(const SolveRequest& request) {
    return cache_.FindInMemory(request, KeysFor(request));
  }

  NullObserver observer_;
  AnswerCache cache_{1 << 20, nullptr, observer_};
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
