// Several servers and the Redis that they share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/checked_answers.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/fake_redis.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/redis_nodes.h"

namespace stowage {
namespace {

using testing::HasSubstr;
using testing::Optional;

// Without a disk, and with patience: a busy machine is no reason for a miss here, nor for a solve
// that is cut off, which is not stored.
std::vector<std::string> Flags(const std::string& url, const char* timeout = "60s") {
  return {"--cache-dir",      "none", "--shared-cache", url, "--shared-cache-timeout", timeout,
          "--max-solve-time", "900s"};
}

double Lookups(const ServerProcess& server, const char* result) {
  return MetricOf(server, absl::StrCat("stowage_cache_tier_lookups_total{result=\"", result,
                                       "\",tier=\"shared\"}"));
}

double Reads(const ServerProcess& server, const char* of) {
  return MetricOf(server,
                  absl::StrCat("stowage_cache_tier_read_seconds_", of, "{tier=\"shared\"}"));
}

// The leases are other keys. Counts ends of names, since no names are an empty line.
void WaitForAnswers(const RedisNodes& nodes, int answers) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (absl::c_count(nodes.Ask(0, {"KEYS", "*}"}), '}') < answers) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

double Leases(const ServerProcess& server, const char* event) {
  return MetricOf(server, absl::StrCat("stowage_solve_leases_total{event=\"", event, "\"}"));
}

// Takes a second or more with so many stages.
v1::SolveRequest SlowRequest(int stages = ServerIsSanitized() ? 1500 : 3000) {
  v1::SolveRequest request = LongSolveRequest(stages, int64_t{500} << 30);
  request.mutable_options()->set_use_cache(true);
  return request;
}

TEST(SharedCache, AServerAnswersWhatAnotherHasSolved) {
  const RedisNodes nodes(1);
  const ServerProcess one(Flags(nodes.Url()));
  const ServerProcess other(Flags(nodes.Url()));
  EXPECT_EQ(SolveAndCheck(Remote(one.address()), DistinctRequest(1)), v1::Origin::SOLVED);
  WaitForAnswers(nodes, 1);
  const Remote remote(other.address());
  EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::SHARED_CACHE);
  EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::MEMORY_CACHE);
  EXPECT_EQ(MetricOf(other, "stowage_answers_total{source=\"shared_cache\"}"), 1);
  EXPECT_EQ(Lookups(other, "hit"), 1);
  EXPECT_EQ(Lookups(one, "miss"), 1);
  EXPECT_GE(Reads(other, "count"), 1);
  EXPECT_GT(Reads(other, "sum"), 0);
}

TEST(SharedCache, ACopyOnDiskOutlivesRedis) {
  const TempFolder folder;
  RedisNodes nodes(1);
  const ServerProcess one(Flags(nodes.Url()));
  EXPECT_EQ(SolveAndCheck(Remote(one.address()), DistinctRequest(1)), v1::Origin::SOLVED);
  WaitForAnswers(nodes, 1);
  const std::vector<std::string> flags = {"--cache-dir", folder.Path("cache"),     "--shared-cache",
                                          nodes.Url(),   "--shared-cache-timeout", "60s"};
  {
    ServerProcess other(flags);
    EXPECT_EQ(SolveAndCheck(Remote(other.address()), DistinctRequest(1)), v1::Origin::SHARED_CACHE);
    WaitForMetric(other, "stowage_cache_entries{tier=\"disk\"}", 1);
    other.Signal(SIGTERM);
    other.WaitForExit();
  }
  nodes.Kill(0);
  const ServerProcess next(flags);
  EXPECT_EQ(SolveAndCheck(Remote(next.address()), DistinctRequest(1)), v1::Origin::DISK_CACHE);
}

// What a server with these flags says of its warm-up.
std::string WarmedUp(ServerProcess& server, const char* event) {
  return server.WaitForLogLine({absl::StrCat("event=", event, " ")});
}

TEST(SharedCache, ANewRedisGetsTheAnswersOfADisk) {
  const TempFolder folder;
  const std::vector<std::string> disk = {"--cache-dir", folder.Path("cache")};
  {
    ServerProcess before(disk);
    const Remote remote(before.address());
    for (int i = 1; i <= 3; ++i) SolveAndCheck(remote, DistinctRequest(i));
    before.Signal(SIGTERM);
    before.WaitForExit();
  }
  const RedisNodes nodes(1);
  ServerProcess first({disk[0], disk[1], "--shared-cache", nodes.Url(), "--warm-up", "disk"});
  EXPECT_THAT(WarmedUp(first, "warmed_up"), HasSubstr("count=3"));
  // It was ready no sooner: nobody has to wait here.
  const ServerProcess other(Flags(nodes.Url()));
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(SolveAndCheck(Remote(other.address()), DistinctRequest(i)), v1::Origin::SHARED_CACHE);
  }
}

TEST(SharedCache, ANewRedisGetsTheAnswersOfTheOldOne) {
  const RedisClusterNodes old_nodes;
  {
    ServerProcess before(Flags(old_nodes.Url()));
    const Remote remote(before.address());
    for (int i = 1; i <= 8; ++i) SolveAndCheck(remote, DistinctRequest(i));
    before.Signal(SIGTERM);
    before.WaitForExit();
  }
  const RedisNodes nodes(1);
  std::vector<std::string> flags = Flags(nodes.Url());
  flags.insert(flags.end(), {"--warm-up", old_nodes.Url()});
  ServerProcess next(flags);
  EXPECT_THAT(WarmedUp(next, "warmed_up"), HasSubstr("count=8"));
  EXPECT_EQ(absl::c_count(nodes.Ask(0, {"KEYS", "*}"}), '}'), 8);
  EXPECT_EQ(SolveAndCheck(Remote(next.address()), DistinctRequest(5)), v1::Origin::SHARED_CACHE);
}

TEST(SharedCache, ASourceThatIsGoneKeepsNoServerFromServing) {
  RedisNodes gone(1);
  const RedisNodes nodes(1);
  gone.Kill(0);
  std::vector<std::string> flags = Flags(nodes.Url());
  flags.insert(flags.end(), {"--warm-up", gone.Url()});
  ServerProcess server(flags);
  EXPECT_THAT(WarmedUp(server, "warmed_up_in_part"), HasSubstr("the shared cache: "));
  EXPECT_EQ(SolveAndCheck(Remote(server.address()), DistinctRequest(1)), v1::Origin::SOLVED);
}

// Every page of this source says that another follows.
TEST(SharedCache, ASignalEndsAWarmUpThatHasNoEnd) {
  std::atomic<int> pages = 0;
  const FakeRedis endless([&pages](const std::vector<std::string>& command) -> std::string {
    if (command[0] != "SCAN") return "-ERR This instance has cluster support disabled\r\n";
    ++pages;
    return "*2\r\n$1\r\n7\r\n*0\r\n";
  });
  const RedisNodes nodes(1);
  std::vector<std::string> argv = {Program("stowage-server"),
                                   "--listen",
                                   "127.0.0.1:0",
                                   "--http",
                                   "none",
                                   "--warm-up-time",
                                   "3600s",
                                   "--warm-up",
                                   absl::StrCat("redis://", ToText(endless.node()))};
  for (const std::string& flag : Flags(nodes.Url())) argv.push_back(flag);
  BackgroundProgram server(argv);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (pages < 2) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << server.Log();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(), 0);
  EXPECT_THAT(server.Log(), HasSubstr("event=warmed_up_in_part "));
}

// Killed and started again: the server does without it meanwhile, and finds it again.
TEST(SharedCache, ARedisThatIsGoneCostsASolve) {
  RedisNodes nodes(1);
  const ServerProcess server(Flags(nodes.Url()));
  const Remote remote(server.address());
  EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::SOLVED);
  nodes.Kill(0);
  for (int i = 2; i < 10; ++i) {
    EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(i)), v1::Origin::SOLVED);
  }
  EXPECT_GE(Lookups(server, "failed"), 1);
  WaitForMetric(server, "stowage_cache_tier_breaker_open{tier=\"shared\"}", 1);
  EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::MEMORY_CACHE);
  nodes.Start(0);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (int i = 10; MetricOf(server, "stowage_cache_tier_breaker_open{tier=\"shared\"}") > 0; ++i) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    SolveAndCheck(remote, DistinctRequest(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// A stopped process keeps its connections open and takes new ones, and never answers.
TEST(SharedCache, ARedisThatHangsHoldsUpNobody) {
  RedisNodes nodes(1);
  const ServerProcess server(Flags(nodes.Url(), "5ms"));
  const Remote remote(server.address());
  SolveAndCheck(remote, DistinctRequest(1));
  nodes.node(0).Signal(SIGSTOP);
  for (int i = 2; i < 20; ++i) {
    EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(i)), v1::Origin::SOLVED);
  }
  EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::MEMORY_CACHE);
  WaitForMetric(server, "stowage_cache_tier_breaker_open{tier=\"shared\"}", 1);
  nodes.node(0).Signal(SIGCONT);
}

TEST(SharedCache, WhateverRedisAnswersNoCallerNotices) {
  for (const char* answer :
       {"garbage\r\n", "-LOADING Redis is loading the dataset in memory\r\n",
        "-CLUSTERDOWN The cluster is down\r\n", "-NOAUTH Authentication required.\r\n",
        "*2\r\n$1\r\na\r\n$3\r\nabc\r\n", "*2\r\n$100\r\n", ""}) {
    const FakeRedis fake([answer](const std::vector<std::string>& command) -> std::string {
      return command[0] == "CLUSTER" ? "-ERR This instance has cluster support disabled\r\n"
                                     : answer;
    });
    const ServerProcess server(Flags(absl::StrCat("redis://", ToText(fake.node())), "200ms"));
    EXPECT_EQ(SolveAndCheck(Remote(server.address()), DistinctRequest(1)), v1::Origin::SOLVED)
        << answer;
    EXPECT_GE(Lookups(server, "failed"), 1) << answer;
  }
}

TEST(SharedCache, AnOperatorDropsAnAnswerThere) {
  const TempFolder folder;
  const RedisNodes nodes(1);
  std::vector<std::string> flags = Flags(nodes.Url());
  flags.insert(flags.end(), {"--operator-token-file",
                             folder.Write("operators", "ops token-of-ops-0123456789\n")});
  const ServerProcess server(flags);
  v1::SolveResponse response;
  ASSERT_EQ(Text(Remote(server.address()).Solve(DistinctRequest(1), &response)), "OK");
  WaitForAnswers(nodes, 1);
  const ProgramResult dropped = RunProgram(
      {Program("stowage"), "operator", "drop", response.origin().fingerprint(), "--server",
       server.address(), "--token-file", folder.Write("token", "token-of-ops-0123456789\n")});
  EXPECT_EQ(dropped.exit_code, 0) << dropped;
  EXPECT_EQ(nodes.Ask(0, {"DBSIZE"}), "0\n");
}

TEST(SolveLeases, ManyEqualQuestionsToThreeServersAreSolvedOnce) {
  const RedisNodes nodes(1);
  std::vector<std::string> flags = Flags(nodes.Url());
  flags.insert(flags.end(), {"--client-rate", "0"});
  const ServerProcess servers[] = {ServerProcess(flags), ServerProcess(flags),
                                   ServerProcess(flags)};
  const Remote remotes[] = {Remote(servers[0].address()), Remote(servers[1].address()),
                            Remote(servers[2].address())};
  const int questions = ServerIsSanitized() ? 150 : 1000;
  const v1::SolveRequest question = SlowRequest(1500);
  std::vector<std::unique_ptr<PendingSolve>> solves;
  for (int i = 0; i < questions; ++i) {
    solves.push_back(std::make_unique<PendingSolve>(remotes[i % 3], question));
  }
  int solved = 0;
  for (const auto& solve : solves) {
    EXPECT_EQ(Text(solve->Wait()), "OK");
    solved += solve->response().origin().source() == v1::Origin::SOLVED ? 1 : 0;
  }
  ExpectRight(question, solves.back()->response());
  double taken = 0;
  double taken_over = 0;  // from a server that a busy machine kept from renewing it for 3 s
  for (const ServerProcess& server : servers) {
    taken += Leases(server, "taken");
    taken_over += Leases(server, "taken_over");
  }
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(solved, taken + taken_over);
}

TEST(SolveLeases, WhereTheHolderIsKilledAnotherTakesOver) {
  const RedisNodes nodes(1);
  ServerProcess holder(Flags(nodes.Url()));
  const ServerProcess other(Flags(nodes.Url()));
  const Remote to_holder(holder.address());
  PendingSolve lost(to_holder, SlowRequest());
  WaitForMetric(holder, "stowage_solves_running", 1);
  const Remote remote(other.address());
  PendingSolve waits(remote, SlowRequest());
  WaitForMetric(other, "stowage_solve_leases_total{event=\"waited\"}", 1);
  holder.Signal(SIGKILL);
  EXPECT_EQ(Text(waits.Wait()), "OK");
  EXPECT_EQ(waits.response().origin().source(), v1::Origin::SOLVED);
  ExpectRight(SlowRequest(), waits.response());
  EXPECT_EQ(Leases(other, "taken_over"), 1);
  EXPECT_FALSE(lost.Wait().ok());
}

// One that was stopped for so long that another has taken over.
TEST(SolveLeases, AHolderThatComesTooLateStoresNothing) {
  const RedisNodes nodes(1);
  ServerProcess holder(Flags(nodes.Url()));
  const ServerProcess other(Flags(nodes.Url()));
  const Remote to_holder(holder.address());
  PendingSolve late(to_holder, SlowRequest());
  // One that stands still before it knows of its lease gives that up, and finds the other's answer.
  WaitForMetric(holder, "stowage_solve_leases_total{event=\"taken\"}", 1);
  WaitForMetric(holder, "stowage_solves_running", 1);
  holder.Signal(SIGSTOP);
  EXPECT_EQ(SolveAndCheck(Remote(other.address()), SlowRequest()), v1::Origin::SOLVED);
  EXPECT_EQ(Leases(other, "taken_over"), 1);
  WaitForAnswers(nodes, 1);
  const std::string key = nodes.Ask(0, {"KEYS", "*}"});
  const auto stored = [&] { return nodes.Ask(0, {"HGETALL", key.substr(0, key.find('\n'))}); };
  const std::string of_other = stored();
  EXPECT_THAT(of_other, HasSubstr("answer"));
  holder.Signal(SIGCONT);
  EXPECT_EQ(Text(late.Wait()), "OK") << "its caller has the answer all the same";
  // What it would store is stored before it exits.
  holder.Signal(SIGTERM);
  EXPECT_THAT(holder.WaitForExit(), Optional(0)) << holder.Log();
  EXPECT_EQ(stored(), of_other);
}

// The rights that deploy/docs/several-servers.md gives servers there are enough.
TEST(SolveLeases, NeedNoMoreRightsThanTheServersHave) {
  const TempFolder folder;
  const RedisNodes nodes(1);
  const std::string page = ReadFile(STOWAGE_ROOT "/deploy/docs/several-servers.md");
  const size_t begin = page.find("ACL SETUSER stowage on >PASSWORD");
  ASSERT_NE(begin, std::string::npos);
  const std::string line = page.substr(begin, page.find('`', begin) - begin);
  EXPECT_EQ(nodes.Ask(0, absl::StrSplit(line, ' ')), "OK\n");
  std::vector<std::string> flags = Flags(nodes.Url());
  flags.insert(flags.end(),
               {"--shared-cache-user-file", folder.Write("user", "stowage PASSWORD\n")});
  const ServerProcess server(flags);
  EXPECT_EQ(SolveAndCheck(Remote(server.address()), DistinctRequest(1)), v1::Origin::SOLVED);
  WaitForAnswers(nodes, 1);
  EXPECT_EQ(Leases(server, "taken"), 1);
  EXPECT_EQ(Leases(server, "failed"), 0);
}

TEST(SharedCache, AWrongOptionStopsTheStart) {
  const TempFolder folder;
  const struct {
    std::vector<std::string> flags;
    const char* problem;
  } cases[] = {
      {{"--shared-cache", "cache.example"}, "--shared-cache: 'cache.example'"},
      {{"--shared-cache", "redis://me:secret@cache.example"}, "--shared-cache-user-file"},
      {{"--shared-cache", "redis://cache.example", "--shared-cache-ca", "ca.pem"}, "rediss://"},
      {{"--shared-cache", "redis://cache.example", "--shared-cache-user-file", folder.Path("no")},
       "No such file"},
      {{"--shared-cache-user-file", folder.Path("no")}, "need --shared-cache"},
      {{"--shared-cache", "redis://cache.example", "--shared-cache-timeout", "soon"},
       "--shared-cache-timeout"},
  };
  for (const auto& [flags, problem] : cases) {
    std::vector<std::string> argv = {Program("stowage-server"), "--listen", "127.0.0.1:0", "--http",
                                     "none"};
    argv.insert(argv.end(), flags.begin(), flags.end());
    const ProgramResult result = RunProgram(argv);
    EXPECT_EQ(result.exit_code, 1) << problem;
    EXPECT_THAT(result.err, HasSubstr(problem));
    EXPECT_THAT(result.err, testing::Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace stowage
