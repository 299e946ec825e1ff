#include "server/cache/tiers/redis_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/cache/tiers/stored_answer.h"
#include "tests/support/chains.h"
#include "tests/support/fake_redis.h"
#include "tests/support/numbered_keys.h"
#include "tests/support/redis_nodes.h"
#include "tests/support/status_matchers.h"

namespace stowage::redis_tier_test {
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
  cached.answer.guarantee = Guarantee::kUpToRounding;
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

std::set<std::string> Visited(RedisTier& tier, size_t most) {
  std::set<std::string> keys;
  EXPECT_THAT(tier.Visit([&](const CachedAnswerPtr& cached) {
    if (cached != nullptr) keys.insert(ToHex(cached->keys.rounded));
    return keys.size() < most;
  }),
              IsOk());
  return keys;
}

TEST(RedisTierTest, ListsTheAnswersOfAllNodesAndNothingElse) {
  const RedisClusterNodes nodes;
  const auto tier = TierOf(nodes);
  std::set<std::string> all;
  for (uint64_t number = 0; number < 60; ++number) {
    ASSERT_THAT(tier->Put(AnswerTo(number)), IsOk());
    ASSERT_THAT(tier->Take(NumberedKeys(100 + number).rounded), IsOk());
    all.insert(ToHex(NumberedKeys(number).rounded));
  }
  EXPECT_EQ(Visited(*TierOf(nodes), 1000), all);
  EXPECT_EQ(Visited(*TierOf(nodes), 7).size(), 7);
}

TEST(RedisTierTest, ListsNoKeysOfOthers) {
  const RedisNodes nodes(1);
  const auto tier = TierOf(nodes);
  ASSERT_THAT(tier->Put(AnswerTo(7)), IsOk());
  nodes.Ask(0, {"SET", "theirs", "1"});
  nodes.Ask(0, {"SET", absl::StrCat("stowage:", kStoredVersion, ":{no key}"), "1"});
  nodes.Ask(0, {"HSET", NameOf(8), "owner", "client", "answer", "none"});
  EXPECT_EQ(Visited(*tier, 10), std::set<std::string>{ToHex(NumberedKeys(7).rounded)});
  EXPECT_EQ(nodes.Ask(0, {"GET", "theirs"}), "1\n");
}

TEST(RedisTierTest, GoesToAnotherClusterWhileACallIsUnderWay) {
  std::promise<void> asked;
  std::promise<void> answered;
  const FakeRedis former([&](const std::vector<std::string>& command) -> std::string {
    if (command[0] == "CLUSTER") return "-ERR This instance has cluster support disabled\r\n";
    asked.set_value();
    answered.get_future().wait();
    return "*2\r\n$-1\r\n$-1\r\n";
  });
  const RedisNodes nodes(1);
  ASSERT_THAT(TierOf(nodes)->Put(AnswerTo(7)), IsOk());
  const auto tier = TierAt({former.node()});
  absl::StatusOr<CachedAnswerPtr> under_way;
  std::thread caller([&] { under_way = tier->Get(NumberedKeys(7).rounded); });
  asked.get_future().wait();
  tier->SetCluster(std::make_shared<RedisCluster>(ParseRedisUrl(nodes.Url())->seeds,
                                                  [] { return RedisLogin(); }));
  const auto found = tier->Get(NumberedKeys(7).rounded);
  answered.set_value();
  caller.join();
  ASSERT_THAT(found, IsOk());
  EXPECT_NE(*found, nullptr);
  ASSERT_THAT(under_way, IsOk());
  EXPECT_EQ(*under_way, nullptr) << "of the former one";
}

// The state of a lease that is asked for, or an error's text.
std::string StateOf(const absl::StatusOr<SolveLease>& lease) {
  if (!lease.ok()) return std::string(lease.status().message());
  switch (lease->state) {
    case SolveLease::State::kFree:
      return "free";
    case SolveLease::State::kTaken:
      return "taken";
    case SolveLease::State::kTakenOver:
      return "taken over";
    case SolveLease::State::kHeld:
      return "held";
    case SolveLease::State::kDone:
      return "done";
  }
  return "";
}

class RedisLeasesTest : public testing::Test {
 protected:
  std::unique_ptr<RedisTier> Server(std::chrono::milliseconds lease = kPatience) {
    return std::make_unique<RedisTier>(
        std::make_unique<RedisCluster>(ParseRedisUrl(nodes_.Url())->seeds,
                                       [] { return RedisLogin(); }),
        RedisTierOptions{.timeout = kPatience, .lease = lease});
  }
  static CachedAnswerPtr AnswerUnder(int64_t token, std::string owner = "client") {
    CachedAnswer cached = *AnswerTo(7);
    cached.lease_token = token;
    cached.owner = std::move(owner);
    return std::make_shared<const CachedAnswer>(std::move(cached));
  }
  // Until it is no longer held.
  static std::string AfterIt(RedisTier& server, const Fingerprint& key) {
    std::string state;
    while ((state = StateOf(server.Look(key))) == "held") std::this_thread::yield();
    return state;
  }

  const RedisNodes nodes_{1};
  const Fingerprint key_ = NumberedKeys(7).rounded;
};

TEST_F(RedisLeasesTest, OneServerHoldsItUntilItsAnswerIsThere) {
  const auto one = Server();
  const auto other = Server();
  EXPECT_EQ(StateOf(other->Look(key_)), "free");
  const auto taken = one->Take(key_);
  ASSERT_EQ(StateOf(taken), "taken");
  EXPECT_EQ(StateOf(other->Take(key_)), "held");
  EXPECT_EQ(StateOf(other->Take(NumberedKeys(8).rounded)), "taken");

  const auto renewed = one->Renew(key_, taken->token, 0.25);
  ASSERT_THAT(renewed, IsOk());
  EXPECT_TRUE(*renewed);
  EXPECT_EQ(other->Look(key_)->fraction, 0.25);
  ASSERT_THAT(one->Put(AnswerUnder(taken->token)), IsOk());
  EXPECT_EQ(StateOf(other->Take(key_)), "done");
  EXPECT_NE(*other->Get(key_), nullptr);
  EXPECT_EQ(one->lease_stats().taken, 1);
  EXPECT_EQ(other->lease_stats().waited, 1);
}

TEST_F(RedisLeasesTest, OneThatRanOutIsTakenOverAndItsHolderComesTooLate) {
  const auto dead = Server(std::chrono::milliseconds(50));
  const auto other = Server();
  const auto lost = dead->Take(key_);
  ASSERT_EQ(StateOf(lost), "taken");
  EXPECT_EQ(AfterIt(*other, key_), "free");
  const auto taken = other->Take(key_);
  ASSERT_EQ(StateOf(taken), "taken over");
  EXPECT_GT(taken->token, lost->token);

  const auto renewed = dead->Renew(key_, lost->token, 0.5);
  ASSERT_THAT(renewed, IsOk());
  EXPECT_FALSE(*renewed);
  ASSERT_THAT(dead->End(key_, lost->token, true), IsOk());
  EXPECT_EQ(StateOf(dead->Look(key_)), "held") << "by the other";
  ASSERT_THAT(dead->Put(AnswerUnder(lost->token, "late")), IsOk());
  EXPECT_EQ(*other->Get(key_), nullptr) << "it stores nothing";
  EXPECT_EQ(dead->lease_stats().lost, 1);
  EXPECT_EQ(dead->lease_stats().refused, 1);

  ASSERT_THAT(other->Put(AnswerUnder(taken->token)), IsOk());
  ASSERT_THAT(dead->Put(AnswerUnder(lost->token)), IsOk());
  nodes_.Ask(0, {"DEL", absl::StrCat(NameOf(7), ":lease")});
  ASSERT_THAT(dead->Put(AnswerUnder(lost->token)), IsOk());
  EXPECT_EQ(dead->lease_stats().refused, 3) << "the answer knows its token, too";
}

TEST_F(RedisLeasesTest, OneThatIsGivenUpIsFree) {
  const auto one = Server();
  const auto taken = one->Take(key_);
  ASSERT_THAT(one->End(key_, taken->token, /*is_done=*/false), IsOk());
  EXPECT_EQ(StateOf(Server()->Take(key_)), "taken");
}

TEST_F(RedisLeasesTest, OneThatEndsWithoutAnAnswerIsDoneForAWhile) {
  const auto one = Server(std::chrono::milliseconds(50));
  const auto taken = one->Take(key_);
  ASSERT_THAT(one->End(key_, taken->token, /*is_done=*/true), IsOk());
  const auto other = Server();
  std::string state;
  while ((state = StateOf(other->Take(key_))) == "done") std::this_thread::yield();
  EXPECT_EQ(state, "taken");
}

TEST_F(RedisLeasesTest, NobodyHoldsTheLeaseOfWhatIsStored) {
  const auto one = Server();
  ASSERT_THAT(one->Put(AnswerUnder(0)), IsOk());
  EXPECT_EQ(StateOf(one->Take(key_)), "done");
  ASSERT_THAT(one->Remove(key_), IsOk());
  EXPECT_EQ(StateOf(one->Take(key_)), "taken");
}

// It is the holder's to store.
TEST_F(RedisLeasesTest, WhatWasSolvedWithoutALeaseDoesNotEndIt) {
  const auto one = Server();
  ASSERT_EQ(StateOf(one->Take(key_)), "taken");
  ASSERT_THAT(one->Put(AnswerUnder(0)), IsOk());
  EXPECT_EQ(*one->Get(key_), nullptr);
  EXPECT_EQ(StateOf(one->Look(key_)), "held");
}

// As a copy from elsewhere, perhaps an older one.
TEST_F(RedisLeasesTest, ACopyReplacesNothing) {
  const auto one = Server();
  const auto is_added = [&](const CachedAnswerPtr& copy) {
    const absl::StatusOr<bool> added = one->PutIfAbsent(copy);
    EXPECT_THAT(added, IsOk());
    return added.value_or(false);
  };
  const auto taken = one->Take(key_);
  EXPECT_FALSE(is_added(AnswerUnder(0))) << "it is being solved";
  EXPECT_EQ(*one->Get(key_), nullptr);
  ASSERT_THAT(one->Put(AnswerUnder(taken->token)), IsOk());
  const std::string stored = nodes_.Ask(0, {"HGETALL", NameOf(7)});

  CachedAnswer older = *AnswerUnder(0);
  older.answer.schedule = Ops("S1 S2 B2 B1");
  EXPECT_FALSE(is_added(std::make_shared<const CachedAnswer>(older))) << "of the same owner";
  EXPECT_EQ(nodes_.Ask(0, {"HGETALL", NameOf(7)}), stored);
  EXPECT_TRUE(is_added(AnswerTo(8)));
  EXPECT_NE(*one->Get(NumberedKeys(8).rounded), nullptr);
}

TEST_F(RedisLeasesTest, AnAnswerUnderItsExactSizesEndsIt) {
  const auto one = Server();
  const auto taken = one->Take(key_);
  CachedAnswer exact = *AnswerUnder(taken->token);
  exact.answer.from_exact_sizes = true;
  ASSERT_THAT(one->Put(std::make_shared<const CachedAnswer>(exact)), IsOk());
  EXPECT_EQ(StateOf(Server()->Look(key_)), "done");
}

TEST_F(RedisLeasesTest, AReplyThatIsNoLeaseIsAFailure) {
  for (const char* reply :
       {":1\r\n", "*2\r\n$4\r\nheld\r\n$1\r\nx\r\n", "*2\r\n$4\r\nheld\r\n$1\r\n2\r\n",
        "*2\r\n$5\r\ntaken\r\n$1\r\n0\r\n", "*2\r\n$1\r\nx\r\n$1\r\n1\r\n"}) {
    const FakeRedis fake([reply](const std::vector<std::string>& command) -> std::string {
      return command[0] == "CLUSTER" ? "-ERR This instance has cluster support disabled\r\n"
                                     : reply;
    });
    EXPECT_THAT(TierAt({fake.node()})->Take(key_),
                Fails(absl::StatusCode::kUnavailable, testing::_))
        << reply;
  }
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
}  // namespace stowage::redis_tier_test
