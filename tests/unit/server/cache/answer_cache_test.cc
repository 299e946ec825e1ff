#include "server/cache/answer_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/service/origin.h"
#include "tests/support/counting_observer.h"
#include "tests/support/fake_tier.h"
#include "tests/support/solved_requests.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

// What is put needs no proof here.
AnswerPtr AsItIs(const CachedAnswerPtr& candidate) { return {candidate, &candidate->answer}; }

class AnswerCacheTest : public testing::Test {
 protected:
  AnswerPtr Find(const SolveRequest& request) {
    return cache_.FindInMemory(KeysFor(request), AsItIs);
  }

  CountingObserver observer_;
  AnswerCache cache_{{1 << 20}, {}, observer_};
};

TEST_F(AnswerCacheTest, FindsWhatWasPut) {
  EXPECT_EQ(Find(Request(6)), nullptr);
  const CachedAnswerPtr cached = Solve(Request(6));
  cache_.PutInMemory(cached);
  EXPECT_EQ(Find(Request(6)).get(), &cached->answer) << "an equal request shares the answer";
  EXPECT_EQ(Find(Request(7)), nullptr);
  EXPECT_EQ(cache_.memory_stats().entries, 1);
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
  AnswerCache cache({.bytes = 4 << 20, .client_share = 0.5}, {}, observer_);
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

TEST_F(AnswerCacheTest, GivesMemoryBackWhenItsLimitIsLowered) {
  const auto put = [this](int stages) {
    CachedAnswer answer = *Solve(Request(4));
    answer.keys = KeysFor(Request(stages));
    cache_.PutInMemory(std::make_shared<const CachedAnswer>(answer));
    cache_.PutResponse({.request_text = std::to_string(stages), .response = "bytes"});
  };
  for (int stages = 4; stages < 64; ++stages) put(stages);
  const int64_t bytes_before = cache_.memory_stats().bytes + cache_.response_stats().bytes;
  ASSERT_EQ(cache_.response_stats().entries, 60);
  cache_.SetMemoryBytes(bytes_before / 2);
  EXPECT_EQ(cache_.memory_bytes(), bytes_before / 2);
  EXPECT_LE(cache_.memory_stats().bytes + cache_.response_stats().bytes, bytes_before / 2);
  EXPECT_EQ(cache_.FindResponse("4"), nullptr) << "the one that was used longest ago";
  EXPECT_NE(cache_.FindResponse("63"), nullptr);
  cache_.SetMemoryBytes(0);
  put(6);
  EXPECT_EQ(cache_.memory_stats().entries + cache_.response_stats().entries, 0);
  cache_.SetMemoryBytes(1 << 20);
  put(6);
  EXPECT_NE(Find(Request(6)), nullptr);
  EXPECT_NE(cache_.FindResponse("6"), nullptr);
}

// A client that fills the cache evicts its own answers once it has its share.
TEST_F(AnswerCacheTest, AClientCannotEvictAllAnswersOfOthers) {
  AnswerCache cache({.bytes = 4 << 20, .client_share = 0.5}, {}, observer_);
  for (int stages = 4; stages < 20; ++stages) {
    CachedAnswer answer = *Solve(Request(stages));
    answer.owner = "honest";
    cache.PutInMemory(std::make_shared<const CachedAnswer>(answer));
  }
  const auto count = [&cache] {
    int found = 0;
    for (int stages = 4; stages < 20; ++stages) {
      found += cache.FindInMemory(KeysFor(Request(stages)), AsItIs) != nullptr ? 1 : 0;
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

class TiersOfACacheTest : public testing::Test {
 protected:
  // As a proof makes it: for who asks.
  static CachedAnswerPtr Proved(const Answer& candidate) {
    return std::make_shared<const CachedAnswer>(
        CachedAnswer{candidate, KeysFor(Request(6)), "asker", /*is_explained=*/true});
  }
  TierHit Find() { return cache_.FindInTiers(KeysFor(Request(6)), Proved); }
  static CachedAnswerPtr In(FakeTier& tier) { return *tier.Get(KeysFor(Request(6)).rounded); }

  CountingObserver observer_;
  FakeTier near_;
  FakeTier far_;
  AnswerCache cache_{
      {1 << 20},
      {{"near", Origin::Source::kMemoryCache, &near_}, {"far", Origin::Source::kDiskCache, &far_}},
      observer_};
};

TEST_F(TiersOfACacheTest, AHitIsWrittenToTheTiersAboveForWhoAsked) {
  ASSERT_THAT(far_.Put(Solve(Request(6))), IsOk());
  const TierHit hit = Find();
  ASSERT_NE(hit.cached, nullptr);
  EXPECT_EQ(hit.source, Origin::Source::kDiskCache);
  EXPECT_EQ(In(near_), hit.cached);
  EXPECT_EQ(In(near_)->owner, "asker");
  EXPECT_EQ(In(far_)->owner, "client") << "it stays where it was";
  EXPECT_EQ(Find().source, Origin::Source::kMemoryCache);
}

TEST_F(TiersOfACacheTest, CountTheirLookUps) {
  EXPECT_EQ(Find().cached, nullptr);
  ASSERT_THAT(far_.Put(Solve(Request(6))), IsOk());
  EXPECT_NE(Find().cached, nullptr);
  EXPECT_NE(Find().cached, nullptr);
  near_.Break();
  EXPECT_NE(Find().cached, nullptr);
  const std::vector<TierStats> stats = cache_.tier_stats();
  ASSERT_EQ(stats.size(), 2);
  EXPECT_EQ(stats[0].name, "near");
  EXPECT_EQ(stats[0].misses, 2);
  EXPECT_EQ(stats[0].hits, 1);
  EXPECT_EQ(stats[0].failures, 1);
  EXPECT_EQ(stats[0].stored.entries, 1);
  EXPECT_EQ(stats[1].name, "far");
  EXPECT_EQ(stats[1].misses, 1);
  EXPECT_EQ(stats[1].hits, 2);
  EXPECT_EQ(stats[1].failures, 0);
}

TEST_F(TiersOfACacheTest, ATierThatDoesNotWorkIsNotAskedTwice) {
  near_.Break();
  EXPECT_EQ(Find().cached, nullptr);
  EXPECT_EQ(near_.reads(), 1);
  EXPECT_EQ(far_.reads(), 2) << "under both keys";
}

// A tier that has the answer to another request under one key.
class MixedUpTier final : public CacheTier {
 public:
  explicit MixedUpTier(const Fingerprint& key) : key_(key) {}
  absl::StatusOr<CachedAnswerPtr> Get(const Fingerprint& key) override {
    if (key == key_) return Solve(Request(7));
    return tier_.Get(key);
  }
  absl::Status Put(CachedAnswerPtr cached) override { return tier_.Put(std::move(cached)); }
  absl::StatusOr<int64_t> Remove(const Fingerprint& rounded) override {
    return tier_.Remove(rounded);
  }
  CacheStats stats() const override { return tier_.stats(); }

 private:
  const Fingerprint key_;
  FakeTier tier_;
};

TEST_F(TiersOfACacheTest, AnAnswerToAnotherRequestIsNotUsedAndTheOtherKeyIsTried) {
  MixedUpTier tier(KeysFor(Request(6)).rounded);
  CachedAnswer right = *Solve(Request(6));
  right.answer.from_exact_sizes = true;
  ASSERT_THAT(tier.Put(std::make_shared<const CachedAnswer>(right)), IsOk());
  AnswerCache cache({1 << 20}, {{"tier", Origin::Source::kDiskCache, &tier}}, observer_);
  const TierHit hit = cache.FindInTiers(KeysFor(Request(6)), Proved);
  ASSERT_NE(hit.cached, nullptr);
  EXPECT_EQ(hit.cached->answer.schedule, right.answer.schedule);
  EXPECT_EQ(observer_.failures, 1);
}

// It would be a hit for ever, and the lower tier would never be asked.
TEST_F(TiersOfACacheTest, WhatIsNotProvedIsLookedForInTheNextTier) {
  ASSERT_THAT(near_.Put(Solve(Request(6))), IsOk());
  CachedAnswer right = *Solve(Request(6));
  right.answer.solver = "right";
  ASSERT_THAT(far_.Put(std::make_shared<const CachedAnswer>(right)), IsOk());
  const TierHit hit = cache_.FindInTiers(KeysFor(Request(6)), [](const Answer& candidate) {
    return candidate.solver == "right" ? Proved(candidate) : nullptr;
  });
  ASSERT_NE(hit.cached, nullptr);
  EXPECT_EQ(hit.cached->answer.solver, "right");
  EXPECT_EQ(cache_.tier_stats()[0].misses, 1);
}

TEST_F(TiersOfACacheTest, AllAreWrittenAndRemovedFrom) {
  cache_.PutInTiers(Solve(Request(6)));
  EXPECT_NE(In(near_), nullptr);
  EXPECT_NE(In(far_), nullptr);
  EXPECT_EQ(*cache_.Remove(KeysFor(Request(6)).rounded), 1);
  EXPECT_EQ(In(near_), nullptr);
  EXPECT_EQ(In(far_), nullptr);
}

// Nothing of them would be believed.
TEST_F(TiersOfACacheTest, AreNotGivenWhatTheyWouldNotBeBelieved) {
  SolveRequest tight = Request(6);
  tight.platform.memory_bytes = 1;
  cache_.PutInTiers(Solve(tight));
  CachedAnswer with_figures = *Solve(Request(6));
  with_figures.has_more_than_schedule = true;
  cache_.PutInTiers(std::make_shared<const CachedAnswer>(with_figures));
  EXPECT_EQ(far_.stats().entries, 0);
}

}  // namespace
}  // namespace stowage
