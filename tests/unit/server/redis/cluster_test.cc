#include "server/redis/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_redis.h"
#include "tests/support/redis_nodes.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

Clock::time_point Patient() { return Clock::now() + kPatience; }

std::vector<RedisNode> SeedsOf(const RedisNodes& nodes) {
  return ParseRedisUrl(nodes.Url())->seeds;
}

RedisCluster::LoginReader As(RedisLogin login) {
  return [login] { return login; };
}

// A cluster of one node that serves all slots.
std::string AllSlots(const RedisNode& node) {
  return absl::StrCat("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$", node.host.size(), "\r\n", node.host,
                      "\r\n:", node.port, "\r\n");
}

TEST(SlotOf, IsTheSpecifications) {
  EXPECT_EQ(SlotOf("123456789"), 0x31C3);
  EXPECT_EQ(SlotOf("foo{bar}{zap}"), SlotOf("bar"));
  EXPECT_EQ(SlotOf("{user1000}.following"), SlotOf("{user1000}.followers"));
  EXPECT_NE(SlotOf("foo{}{bar}"), SlotOf("bar")) << "an empty tag is none";
  EXPECT_EQ(SlotOf("foo{{bar}}zap"), SlotOf("{bar"));
}

TEST(RedisClusterTest, ASingleRedisIsAClusterOfOne) {
  const RedisNodes nodes(1);
  RedisCluster cluster(SeedsOf(nodes), As({}));
  EXPECT_EQ(cluster.Call("k", {"SET", "k", "value"}, Patient())->text, "OK");
  EXPECT_EQ(cluster.Call("k", {"GET", "k"}, Patient())->text, "value");
  EXPECT_TRUE(cluster.Call("none", {"GET", "none"}, Patient())->is_nil());
  EXPECT_THAT(cluster.Call("k", {"INCR", "k"}, Patient()),
              Fails(absl::StatusCode::kFailedPrecondition, HasSubstr("not an integer")));
}

TEST(RedisClusterTest, RunsScriptsThatANodeHasForgotten) {
  RedisNodes nodes(1);
  RedisCluster cluster(SeedsOf(nodes), As({}));
  const RedisScript script("return {KEYS[1], ARGV[1]}");
  for (int i = 0; i < 2; ++i) {
    const auto reply = cluster.Run(script, {"k"}, {"v"}, Patient());
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->elements[1].text, "v");
    nodes.Ask(0, {"SCRIPT", "FLUSH"});
  }
}

TEST(RedisClusterTest, LogsIn) {
  const RedisNodes nodes(1, {"--requirepass", "secret"});
  RedisCluster cluster(SeedsOf(nodes), As({.password = "secret"}));
  EXPECT_THAT(cluster.Call("k", {"SET", "k", "v"}, Patient()), IsOk());
  RedisCluster wrong(SeedsOf(nodes), As({.password = "guess"}));
  EXPECT_THAT(wrong.Call("k", {"GET", "k"}, Patient()),
              Fails(absl::StatusCode::kPermissionDenied, HasSubstr("WRONGPASS")));
  RedisCluster none(SeedsOf(nodes), As({}));
  EXPECT_THAT(none.Call("k", {"GET", "k"}, Patient()),
              Fails(absl::StatusCode::kPermissionDenied, HasSubstr("NOAUTH")));
}

TEST(RedisClusterTest, FindsTheNodeOfEachKeyFromAnySeed) {
  const RedisClusterNodes nodes;
  RedisCluster cluster({SeedsOf(nodes)[5]}, As({}));  // a replica
  for (int i = 0; i < 100; ++i) {
    const std::string key = absl::StrCat("key", i);
    ASSERT_THAT(cluster.Call(key, {"SET", key, "v"}, Patient()), IsOk());
    EXPECT_EQ(cluster.Call(key, {"GET", key}, Patient())->text, "v");
  }
  int keys = 0;
  for (size_t master = 0; master < 3; ++master) {
    const int of_master = std::stoi(nodes.Ask(master, {"DBSIZE"}));
    EXPECT_GT(of_master, 0);
    keys += of_master;
  }
  EXPECT_EQ(keys, 100);
}

TEST(RedisClusterTest, FollowsAKeyWhoseSlotMoves) {
  const RedisClusterNodes nodes;
  RedisCluster cluster(SeedsOf(nodes), As({}));
  ASSERT_THAT(cluster.Call("k", {"SET", "k", "v"}, Patient()), IsOk());
  const std::string slot = absl::StrCat(SlotOf("k"));
  size_t from = 0;
  while (nodes.Ask(from, {"GET", "k"}) != "v\n") ++from;
  const size_t to = (from + 1) % 3;
  const auto id = [&](size_t node) {
    const std::string text = nodes.Ask(node, {"CLUSTER", "MYID"});
    return text.substr(0, text.size() - 1);
  };
  // Half way the key is at neither place by the table of slots: the old node sends callers on.
  nodes.Ask(to, {"CLUSTER", "SETSLOT", slot, "IMPORTING", id(from)});
  nodes.Ask(from, {"CLUSTER", "SETSLOT", slot, "MIGRATING", id(to)});
  const std::string target = nodes.address(to);
  const size_t colon = target.find(':');
  nodes.Ask(from, {"MIGRATE", target.substr(0, colon), target.substr(colon + 1), "k", "0", "5000"});
  EXPECT_EQ(cluster.Call("k", {"GET", "k"}, Patient())->text, "v");
  for (const size_t node : {to, from})
    nodes.Ask(node, {"CLUSTER", "SETSLOT", slot, "NODE", id(to)});
  EXPECT_EQ(cluster.Call("k", {"GET", "k"}, Patient())->text, "v");
}

TEST(RedisClusterTest, FindsTheReplicaThatTakesOver) {
  RedisClusterNodes nodes;
  nodes.FailQuickly();
  RedisCluster cluster(SeedsOf(nodes), As({}));
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) keys.push_back(absl::StrCat("key", i));
  for (const std::string& key : keys) {
    ASSERT_THAT(cluster.Call(key, {"SET", key, "old"}, Patient()), IsOk());
  }
  nodes.Kill(0);
  for (const std::string& key : keys) {
    absl::StatusOr<RedisReply> reply = absl::UnavailableError("not asked");
    for (const auto end = Patient(); !reply.ok() && Clock::now() < end;) {
      reply = cluster.Call(key, {"SET", key, "new"}, Clock::now() + std::chrono::seconds(1));
      if (!reply.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_THAT(reply, IsOk());
  }
}

TEST(RedisClusterTest, ManyThreadsShareIt) {
  const RedisClusterNodes nodes;
  RedisCluster cluster(SeedsOf(nodes), As({}));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string key = absl::StrCat(t, "-", i);
        (void)cluster.Call(key, {"SET", key, key}, Patient());
        const auto reply = cluster.Call(key, {"GET", key}, Patient());
        if (!reply.ok() || reply->text != key) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(RedisClusterTest, NobodyThereIsUnavailable) {
  RedisNode gone;
  {
    const FakeRedis fake([](const auto&) { return ""; });
    gone = fake.node();
  }
  RedisCluster cluster({gone}, As({}));
  EXPECT_THAT(cluster.Call("k", {"GET", "k"}, Patient()),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("refused")));
}

TEST(RedisClusterTest, ANodeThatDoesNotAnswerTakesTheDeadlineAndNoMore) {
  std::atomic<bool> ends{false};
  const FakeRedis fake([&](const auto&) {
    while (!ends) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return "+OK\r\n";
  });
  RedisCluster cluster({fake.node()}, As({}));
  EXPECT_THAT(cluster.Call("k", {"GET", "k"}, Clock::now() + std::chrono::milliseconds(20)),
              Fails(absl::StatusCode::kDeadlineExceeded, HasSubstr("in time")));
  ends = true;
}

// What comes back is no table of slots, redirects in circles or nowhere, is garbage, or ends early.
TEST(RedisClusterTest, SurvivesWhateverANodeSends) {
  std::string answer;
  std::string slots;
  Mutex mutex;
  const FakeRedis fake([&](const std::vector<std::string>& command) {
    MutexLock lock(mutex);
    return command[0] == "CLUSTER" ? slots : answer;
  });
  const std::string all = AllSlots(fake.node());
  const auto moved = absl::StrCat("-MOVED 7629 ", ToText(fake.node()), "\r\n");
  const struct {
    std::string slots;
    std::string answer;
  } cases[] = {
      {"*0\r\n", "+OK\r\n"},
      {"+OK\r\n", "+OK\r\n"},
      {"*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$1\r\na\r\n:1\r\n", "+OK\r\n"},
      {"*1\r\n*3\r\n:-1\r\n:9\r\n*2\r\n$1\r\na\r\n:1\r\n", "+OK\r\n"},
      {"*1\r\n*3\r\n:0\r\n:9\r\n*2\r\n$1\r\na\r\n:0\r\n", "+OK\r\n"},
      {"*1\r\n*1\r\n:0\r\n", "+OK\r\n"},
      {"garbage\r\n", "+OK\r\n"},
      {"-LOADING Redis is loading\r\n", "+OK\r\n"},
      {"-CLUSTERDOWN\r\n", "+OK\r\n"},
      {all, moved},
      {all, "-MOVED\r\n"},
      {all, "-MOVED 1 nowhere:x\r\n"},
      {all, "-ASK 1 \r\n"},
      {all, "garbage\r\n"},
      {all, "-LOADING Redis is loading the dataset in memory\r\n"},
      {all, "-CLUSTERDOWN Hash slot not served\r\n"},
      {all, "-NOAUTH Authentication required.\r\n"},
      {all, "+two\r\n+replies\r\n"},
      {all, ""},
  };
  for (const auto& [its_slots, its_answer] : cases) {
    {
      MutexLock lock(mutex);
      slots = its_slots;
      answer = its_answer;
    }
    RedisCluster cluster({fake.node()}, As({}));
    const auto reply = cluster.Call("k", {"GET", "k"}, Patient());
    EXPECT_FALSE(reply.ok()) << its_slots << its_answer;
    EXPECT_FALSE(reply.status().message().empty());
    {
      MutexLock lock(mutex);
      slots = all;
      answer = "+OK\r\n";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(110));  // then it asks for slots again
    EXPECT_THAT(cluster.Call("k", {"GET", "k"}, Patient()), IsOk()) << its_slots << its_answer;
  }
}

}  // namespace
}  // namespace stowage
