// What every cache tier must do, what those must that count what they hold, and what those must
// that evict by themselves: a suite each.
#include "server/cache/cache_tier.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/cache/tiers/guarded_tier.h"
#include "server/cache/tiers/redis_tier.h"
#include "server/cache/tiers/sqlite_tier.h"
#include "tests/support/chains.h"
#include "tests/support/counting_observer.h"
#include "tests/support/fake_tier.h"
#include "tests/support/files.h"
#include "tests/support/numbered_keys.h"
#include "tests/support/redis_nodes.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

// A tier, and the directory or the Redis that it needs.
struct OwnedTier {
  std::shared_ptr<void> needs;
  std::unique_ptr<CacheTier> tier;
  std::function<void()> settle = [] {};  // until what was put is written
};

struct TierKind {
  const char* name;
  OwnedTier (*make)();
};

OwnedTier MakeSqlite() {
  auto folder = std::make_unique<TempFolder>();
  auto tier = SqliteTier::Open(folder->Path("cache"), {kMaxBytes, /*client_share=*/0.5});
  EXPECT_THAT(tier, IsOk());
  return {std::move(folder), *std::move(tier)};
}

// Nothing is too slow for it, so that the suite sees the tier behind it.
OwnedTier MakeGuarded() {
  static auto& observer = *new CountingObserver;
  OwnedTier sqlite = MakeSqlite();
  auto guarded = std::make_unique<GuardedTier>(
      std::move(sqlite.tier),
      GuardOptions{.name = "sqlite", .timeout = std::chrono::minutes(1), .max_writes = 10'000},
      observer);
  GuardedTier* const guard = guarded.get();
  return {sqlite.needs, std::move(guarded), [guard] { guard->Flush(); }};
}

std::unique_ptr<RedisTier> TierOf(const RedisNodes& nodes) {
  const RedisTierOptions patient = {.timeout = kPatience};
  return std::make_unique<RedisTier>(
      std::make_unique<RedisCluster>(ParseRedisUrl(nodes.Url())->seeds,
                                     [] { return RedisLogin(); }),
      patient);
}

OwnedTier MakeRedis() {
  auto nodes = std::make_shared<RedisNodes>(1);
  return {nodes, TierOf(*nodes)};
}

OwnedTier MakeRedisCluster() {
  auto nodes = std::make_shared<RedisClusterNodes>();
  return {nodes, TierOf(*nodes)};
}

OwnedTier MakeFake() { return {nullptr, std::make_unique<FakeTier>()}; }

// An answer that differs from those to other numbers.
CachedAnswerPtr AnswerTo(uint64_t number, size_t operations = 6) {
  CachedAnswer cached;
  cached.keys = NumberedKeys(number);
  cached.answer.outcome = Outcome::kFeasible;
  cached.answer.guarantee = Guarantee::kUpToRounding;
  cached.answer.solver = "rotor";
  const Schedule pair = Ops("S1 B1");
  while (cached.answer.schedule.operations.size() < operations) {
    for (const Operation& operation : pair.operations) {
      cached.answer.schedule.operations.push_back(operation);
    }
  }
  return std::make_shared<const CachedAnswer>(std::move(cached));
}

class TierTest : public testing::TestWithParam<TierKind> {
 protected:
  CacheTier& tier() { return *owned_.tier; }
  absl::Status Put(CachedAnswerPtr cached) {
    absl::Status put = tier().Put(std::move(cached));
    owned_.settle();
    return put;
  }
  CachedAnswerPtr Get(uint64_t number) {
    const auto cached = tier().Get(NumberedKeys(number).rounded);
    EXPECT_THAT(cached, IsOk());
    return cached.ok() ? *cached : nullptr;
  }

  OwnedTier owned_ = GetParam().make();
};

class CacheTierTest : public TierTest {};
class CountingTierTest : public TierTest {};
class BoundedTierTest : public TierTest {};

TEST_P(CacheTierTest, GivesBackWhatWasPut) {
  EXPECT_EQ(Get(7), nullptr);
  ASSERT_THAT(Put(AnswerTo(7)), IsOk());
  const CachedAnswerPtr cached = Get(7);
  ASSERT_NE(cached, nullptr);
  const CachedAnswerPtr original = AnswerTo(7);
  const Answer& put = original->answer;
  EXPECT_EQ(cached->answer.schedule, put.schedule);
  EXPECT_EQ(cached->answer.outcome, put.outcome);
  EXPECT_EQ(cached->answer.guarantee, put.guarantee);
  EXPECT_EQ(cached->answer.solver, put.solver);
  EXPECT_EQ(cached->keys.exact, NumberedKeys(7).exact);
  EXPECT_EQ(Get(8), nullptr);
}

TEST_P(CacheTierTest, StoresWhatDependsOnExactSizesUnderThem) {
  CachedAnswer cached = *AnswerTo(7);
  cached.answer.from_exact_sizes = true;
  ASSERT_THAT(Put(std::make_shared<const CachedAnswer>(cached)), IsOk());
  EXPECT_EQ(Get(7), nullptr);
  const auto found = tier().Get(NumberedKeys(7).exact_sizes);
  ASSERT_THAT(found, IsOk());
  EXPECT_NE(*found, nullptr);
}

TEST_P(CacheTierTest, ReplacesAnAnswer) {
  ASSERT_THAT(Put(AnswerTo(7)), IsOk());
  ASSERT_THAT(Put(AnswerTo(7, 600)), IsOk());
  EXPECT_EQ(Get(7)->answer.schedule.operations.size(), 600);
}

TEST_P(CountingTierTest, CountsAnAnswerOnce) {
  ASSERT_THAT(Put(AnswerTo(7)), IsOk());
  const CacheStats once = tier().stats();
  EXPECT_EQ(once.entries, 1);
  EXPECT_GT(once.bytes, 0);
  ASSERT_THAT(Put(AnswerTo(7)), IsOk());
  EXPECT_EQ(tier().stats().entries, 1);
  EXPECT_EQ(tier().stats().bytes, once.bytes);
}

TEST_P(CountingTierTest, CountsNoMoreWhatIsRemoved) {
  ASSERT_THAT(Put(AnswerTo(7)), IsOk());
  ASSERT_THAT(Put(AnswerTo(8)), IsOk());
  const int64_t both = tier().stats().bytes;
  EXPECT_EQ(*tier().Remove(NumberedKeys(7).rounded), 1);
  EXPECT_EQ(tier().stats().entries, 1);
  EXPECT_EQ(tier().stats().bytes, both / 2);
}

TEST_P(CacheTierTest, LeavesTheAnswerOfAnotherOwner) {
  const auto put = [this](size_t operations, const char* owner) {
    CachedAnswer cached = *AnswerTo(7, operations);
    cached.owner = owner;
    ASSERT_THAT(Put(std::make_shared<const CachedAnswer>(cached)), IsOk());
  };
  put(6, "victim");
  const CacheStats before = tier().stats();
  put(600, "hostile");
  EXPECT_EQ(tier().stats().entries, before.entries);
  EXPECT_EQ(tier().stats().bytes, before.bytes);
  const CachedAnswerPtr kept = Get(7);
  EXPECT_EQ(kept->owner, "victim");
  EXPECT_EQ(kept->answer.schedule.operations.size(), 6);
  put(60, "victim");
  EXPECT_EQ(Get(7)->answer.schedule.operations.size(), 60);
}

// Also one that is stored under its exact sizes.
TEST_P(CacheTierTest, RemovesTheAnswersWithAFingerprint) {
  ASSERT_THAT(Put(AnswerTo(7)), IsOk());
  ASSERT_THAT(Put(AnswerTo(8)), IsOk());
  EXPECT_EQ(*tier().Remove(NumberedKeys(7).rounded), 1);
  EXPECT_EQ(Get(7), nullptr);
  EXPECT_NE(Get(8), nullptr);
  EXPECT_EQ(*tier().Remove(NumberedKeys(7).rounded), 0);
  CachedAnswer exact = *AnswerTo(7);
  exact.answer.from_exact_sizes = true;
  ASSERT_THAT(Put(std::make_shared<const CachedAnswer>(exact)), IsOk());
  EXPECT_EQ(*tier().Remove(NumberedKeys(7).rounded), 1);
  EXPECT_EQ(*tier().Get(NumberedKeys(7).exact_sizes), nullptr);
  EXPECT_NE(Get(8), nullptr);
}

TEST_P(CacheTierTest, ServesManyThreads) {
  std::vector<std::jthread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (uint64_t i = 0; i < 100; ++i) {
        const uint64_t number = (thread * 31 + i) % 50;
        ASSERT_THAT(Put(AnswerTo(number)), IsOk());
        const CachedAnswerPtr cached = Get(number);
        if (cached != nullptr) {
          EXPECT_EQ(cached->keys.exact, NumberedKeys(number).exact);
        }
      }
    });
  }
}

TEST_P(BoundedTierTest, StaysWithinItsBytes) {
  for (uint64_t number = 0; number < 3000; ++number) {
    ASSERT_THAT(Put(AnswerTo(number, 200)), IsOk());
    ASSERT_LE(tier().stats().bytes, kMaxBytes);
  }
  const CacheStats stats = tier().stats();
  EXPECT_GT(stats.evictions, 0);
  EXPECT_EQ(stats.entries + stats.evictions, 3000);
  EXPECT_GT(stats.bytes, kMaxBytes / 2) << "it holds less than it could";
  EXPECT_NE(Get(2999), nullptr) << "the last one that came";
  EXPECT_EQ(Get(0), nullptr) << "the first one that came";
}

// Of two owners each may fill the tier; neither can evict all that the other has.
TEST_P(BoundedTierTest, AnOwnerAboveItsShareGivesUpItsOwnAnswers) {
  const auto put = [this](uint64_t number, const char* owner) {
    CachedAnswer cached = *AnswerTo(number, 200);
    cached.owner = owner;
    ASSERT_THAT(Put(std::make_shared<const CachedAnswer>(cached)), IsOk());
  };
  for (uint64_t number = 0; number < 100; ++number) put(number, "honest");
  for (uint64_t number = 100; number < 3000; ++number) put(number, "hostile");
  EXPECT_GT(tier().stats().evictions, 0);
  int left = 0;
  for (uint64_t number = 0; number < 100; ++number) left += Get(number) != nullptr ? 1 : 0;
  EXPECT_EQ(left, 100);
  EXPECT_EQ(Get(0)->owner, "honest");
}

TEST_P(BoundedTierTest, LeavesOutWhatIsLargerThanAllOfIt) {
  ASSERT_THAT(Put(AnswerTo(1)), IsOk());
  ASSERT_THAT(Put(AnswerTo(2, 400'000)), IsOk());
  EXPECT_EQ(Get(2), nullptr);
  EXPECT_NE(Get(1), nullptr);
}

constexpr TierKind kFake = {"fake", MakeFake};
constexpr TierKind kGuarded = {"guarded", MakeGuarded};
constexpr TierKind kRedis = {"redis", MakeRedis};
constexpr TierKind kRedisCluster = {"redis_cluster", MakeRedisCluster};
constexpr TierKind kSqlite = {"sqlite", MakeSqlite};

INSTANTIATE_TEST_SUITE_P(Tiers, CacheTierTest,
                         testing::Values(kFake, kGuarded, kRedis, kRedisCluster, kSqlite),
                         [](const auto& test) { return std::string(test.param.name); });
INSTANTIATE_TEST_SUITE_P(Tiers, CountingTierTest, testing::Values(kFake, kGuarded, kSqlite),
                         [](const auto& test) { return std::string(test.param.name); });
INSTANTIATE_TEST_SUITE_P(Tiers, BoundedTierTest, testing::Values(kGuarded, kSqlite),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace stowage
