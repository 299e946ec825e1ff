#include "server/cache/tiers/redis_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/cache/tiers/stored_answer.h"
#include "tests/support/chains.h"
#include "tests/support/fake_redis.h"
#include "tests/support/numbered_keys.h"
#include "tests/support/redis_nodes.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;

std::unique_ptr<RedisTier> TierAt(std::vector<RedisNode> seeds,
                                  std::chrono::milliseconds timeout = kPatience) {
  return std::make_unique<RedisTier>(
      std::make_unique<RedisCluster>(std::move(seeds), [] { return RedisLogin(); }),
      RedisTierOptions{.timeout = timeout});
}

std::unique_ptr<RedisTier> TierOf(const RedisNodes& nodes) {
  return TierAt(ParseRedisUrl(nodes.Url())->seeds);
}

CachedAnswerPtr AnswerTo(uint64_t number) {
  CachedAnswer cached;
  cached.keys = NumberedKeys(number);
  cached.owner = "client";
  cached.answer.outcome = Outcome::kFeasible;
  cached.answer.limit = Limit::kRounding;
  cached.answer.solver = "rotor";
  cached.answer.schedule = Ops("S1 B1");
  return std::make_shared<const CachedAnswer>(std::move(cached));
}

std::string NameOf(uint64_t number) {
  return absl::StrCat("stowage:", kStoredVersion, ":{", ToHex(NumberedKeys(number).rounded), "}");
}

TEST(RedisTierTest, SeveralServersShareAnswers) {
  const RedisNodes nodes(1);
  const auto one = TierOf(nodes);
  const auto other = TierOf(nodes);
  ASSERT_THAT(one->Put(AnswerTo(7)), IsOk());
  const auto found = other->Get(NumberedKeys(7).rounded);
  ASSERT_THAT(found, IsOk());
  ASSERT_NE(*found, nullptr);
  EXPECT_EQ((*found)->owner, "client");
  EXPECT_EQ((*found)->answer.schedule, AnswerTo(7)->answer.schedule);
}

TEST(RedisTierTest, AnswersEnd) {
  const RedisNodes nodes(1);
  ASSERT_THAT(TierOf(nodes)->Put(AnswerTo(7)), IsOk());
  const int seconds = std::stoi(nodes.Ask(0, {"TTL", NameOf(7)}));
  EXPECT_GT(seconds, 29 * 24 * 3600);
  EXPECT_LE(seconds, 30 * 24 * 3600);
}

// What others wrote, what was cut off, what belongs to another key.
TEST(RedisTierTest, RemovesWhatIsNoAnswer) {
  const RedisNodes nodes(1);
  const auto tier = TierOf(nodes);
  for (const char* value : {"", "1234567", "12345678", "12345678garbage"}) {
    nodes.Ask(0, {"HSET", NameOf(7), "owner", "client", "answer", value});
    EXPECT_THAT(tier->Get(NumberedKeys(7).rounded),
                Fails(absl::StatusCode::kDataLoss, HasSubstr("no answer")))
        << value;
    EXPECT_EQ(nodes.Ask(0, {"EXISTS", NameOf(7)}), "0\n");
  }
  ASSERT_THAT(tier->Put(AnswerTo(8)), IsOk());
  nodes.Ask(0, {"RENAME", NameOf(8), NameOf(7)});
  EXPECT_THAT(tier->Get(NumberedKeys(7).rounded), Fails(absl::StatusCode::kDataLoss, testing::_));
}

TEST(RedisTierTest, EachBitOfAValueCounts) {
  const RedisNodes nodes(1);
  const auto tier = TierOf(nodes);
  ASSERT_THAT(tier->Put(AnswerTo(7)), IsOk());
  const std::string flip = absl::StrCat(
      "local v = redis.call('HGET', KEYS[1], 'answer') "
      "local i = tonumber(ARGV[1]) "
      "if i > #v then return 0 end "
      "redis.call('HSET', KEYS[1], 'answer', "
      "v:sub(1, i - 1) .. string.char(bit.bxor(v:byte(i), 4)) .. v:sub(i + 1)) return 1");
  for (int i = 1;; ++i) {
    ASSERT_THAT(tier->Put(AnswerTo(7)), IsOk());
    if (nodes.Ask(0, {"EVAL", flip, "1", NameOf(7), absl::StrCat(i)}) != "1\n") break;
    EXPECT_FALSE(tier->Get(NumberedKeys(7).rounded).ok()) << i;
  }
}

TEST(RedisTierTest, AKeyOfAnotherKindIsNoAnswer) {
  const RedisNodes nodes(1);
  const auto tier = TierOf(nodes);
  nodes.Ask(0, {"SET", NameOf(7), "not a hash"});
  EXPECT_THAT(tier->Get(NumberedKeys(7).rounded),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("WRONGTYPE")));
  EXPECT_THAT(tier->Put(AnswerTo(7)),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("WRONGTYPE")));
}

TEST(RedisTierTest, ARedisThatIsFullOrGoneIsUnavailable) {
  RedisNodes nodes(1, {"--maxmemory", "1", "--maxmemory-policy", "noeviction"});
  const auto tier = TierOf(nodes);
  EXPECT_THAT(tier->Put(AnswerTo(7)), Fails(absl::StatusCode::kUnavailable, HasSubstr("OOM")));
  nodes.Kill(0);
  EXPECT_THAT(tier->Get(NumberedKeys(7).rounded),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("the shared cache: ")));
  nodes.Start(0);
  EXPECT_THAT(tier->Get(NumberedKeys(7).rounded), IsOk());
}

// Replies that are well-formed and say nothing that a tier could use.
TEST(RedisTierTest, SurvivesWhateverRedisAnswers) {
  for (const char* answer :
       {"*0\r\n", "*1\r\n$1\r\na\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n", "+OK\r\n", "$-1\r\n",
        "*2\r\n*0\r\n*0\r\n", "*2\r\n$1\r\na\r\n:5\r\n", ":0\r\n"}) {
    const FakeRedis fake([answer](const std::vector<std::string>& command) {
      return command[0] == "CLUSTER" ? "-ERR This instance has cluster support disabled\r\n"
                                     : answer;
    });
    const auto tier = TierAt({fake.node()});
    EXPECT_THAT(tier->Get(NumberedKeys(7).rounded), Fails(absl::StatusCode::kDataLoss, testing::_))
        << answer;
    (void)tier->Put(AnswerTo(7));
    (void)tier->Remove(NumberedKeys(7).rounded);
  }
}

}  // namespace
}  // namespace stowage
