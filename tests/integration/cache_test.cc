// The server's caches: one solve for equal requests in flight, answers that survive whatever
// happens to the process and its disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/request_message.h"
#include "solver/bounds/memory_range.h"
#include "tests/integration/checked_answers.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/forged_requests.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::Optional;

// After a hit in memory the serialized response is cached, too.
TEST(Cache, EqualRequestTextsGetTheSameBytes) {
  ServerProcess server;
  const Remote remote(server.address());
  const auto solve = [&remote](const v1::SolveRequest& request) {
    v1::SolveResponse response;
    EXPECT_EQ(Text(remote.Solve(request, &response)), "OK");
    ExpectRight(request, response);
    return response.SerializeAsString();
  };
  solve(DistinctRequest(1));
  const std::string second = solve(DistinctRequest(1));
  EXPECT_EQ(MetricOf(server, "stowage_cache_entries{tier=\"responses\"}"), 1);
  v1::SolveRequest annotated = DistinctRequest(1);
  (*annotated.mutable_chain()->mutable_provenance()->mutable_fields())["by"].set_string_value("me");
  EXPECT_EQ(solve(annotated), second);
  EXPECT_EQ(MetricOf(server, "stowage_answers_total{source=\"memory_cache\"}"), 2);
  v1::SolveRequest other = DistinctRequest(1);
  other.mutable_platform()->set_name("another");
  EXPECT_NE(solve(other), second);
  EXPECT_EQ(MetricOf(server, "stowage_cache_entries{tier=\"responses\"}"), 2);
  other.mutable_options()->set_use_cache(false);
  EXPECT_EQ(SolveAndCheck(remote, other), v1::Origin::SOLVED);
  EXPECT_EQ(SolveAndCheck(remote, other), v1::Origin::SOLVED);
}

TEST(Cache, AnswersAgainFromMemoryAndAfterSigkillFromDisk) {
  const TempFolder folder;
  const std::vector<std::string> flags = {"--cache-dir", folder.Path("cache")};
  {
    ServerProcess server(flags);
    const Remote remote(server.address());
    EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::SOLVED);
    EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::MEMORY_CACHE);
    WaitForMetric(server, "stowage_cache_entries{tier=\"disk\"}", 1);
    server.Signal(SIGKILL);
    server.WaitForExit();
  }
  ServerProcess server(flags);
  const Remote remote(server.address());
  EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::DISK_CACHE);
  EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::MEMORY_CACHE);
}

// While keys were unseeded hashes that are not cryptographic, the forged request made the victim's
// infeasible, from memory and after a restart from disk.
TEST(Cache, AForgedRequestDoesNotAnswerForAnother) {
  const TempFolder folder;
  const std::vector<std::string> flags = {"--cache-dir", folder.Path("cache")};
  const auto outcome = [](const ServerProcess& server, const SolveRequest& request) {
    v1::SolveResponse response;
    EXPECT_EQ(Text(Remote(server.address()).Solve(ToMessage(request), &response)), "OK");
    return response.outcome();
  };
  {
    ServerProcess server(flags);
    EXPECT_EQ(outcome(server, ForgedRequest()), v1::INFEASIBLE);
    EXPECT_EQ(outcome(server, VictimRequest()), v1::OPTIMAL);
    WaitForMetric(server, "stowage_cache_entries{tier=\"disk\"}", 1);
    server.Signal(SIGKILL);
    server.WaitForExit();
  }
  ServerProcess server(flags);
  EXPECT_EQ(outcome(server, ForgedRequest()), v1::INFEASIBLE);
  EXPECT_EQ(outcome(server, VictimRequest()), v1::OPTIMAL);
}

// Fifty times: callers send requests, the server is killed, another one is started.
TEST(Cache, NothingIsEverWrongHoweverOftenTheServerIsKilled) {
  const TempFolder folder;
  const std::vector<std::string> flags = {"--cache-dir", folder.Path("cache")};
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    ServerProcess server(flags);
    std::vector<std::jthread> callers;
    callers.reserve(3);
    for (int caller = 0; caller < 3; ++caller) {
      callers.emplace_back([&server, number = static_cast<int>(random() % 900)] {
        const Remote remote(server.address());
        for (int i = 0; i < 1000; ++i) {
          const v1::SolveRequest request = DistinctRequest(number + i);
          v1::SolveResponse response;
          if (!remote.Solve(request, &response).ok()) return;  // it is gone
          ExpectRight(request, response);
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 150));
    server.Signal(SIGKILL);
    server.WaitForExit();
  }
  ServerProcess server(flags);
  const Remote remote(server.address());
  int hits = 0;
  for (int number = 0; number < 900; number += 9) {
    hits += SolveAndCheck(remote, DistinctRequest(number)) == v1::Origin::DISK_CACHE ? 1 : 0;
  }
  EXPECT_GT(hits, 0) << "nothing survived";
  EXPECT_EQ(MetricOf(server, "stowage_store_failures_total{reason=\"damaged\"}"), 0);
}

TEST(Cache, ACachedAnswerHasTheCallersOwnPlatform) {
  ServerProcess server;
  const Remote remote(server.address());
  for (const char* name : {"theirs", "ours"}) {
    v1::SolveRequest request = DistinctRequest(1);
    request.mutable_platform()->set_name(name);
    v1::SolveResponse response;
    ASSERT_TRUE(remote.Solve(request, &response).ok());
    EXPECT_EQ(response.platform().name(), name);
  }
  EXPECT_EQ(MetricOf(server, "stowage_answers_total{source=\"memory_cache\"}"), 1);
}

// Names count for warnings, and are no part of cached answers. The second of each pair of equal
// requests gets the cached text of the first one's response.
TEST(Cache, ACachedAnswerWarnsOfTheCallersOwnChain) {
  ServerProcess server;
  const Remote remote(server.address());
  v1::SolveRequest unnamed;
  unnamed.set_solver("rotor");
  unnamed.mutable_platform()->set_memory_bytes(100'000);
  for (const double forward : {0.02, 0.001, 0.001, 0.001}) {
    v1::Stage& stage = *unnamed.mutable_chain()->add_stages();
    stage.set_forward_seconds(forward);
    stage.set_backward_seconds(2 * forward);
    stage.set_output_bytes(1000);
    stage.set_saved_bytes(3000);
  }
  v1::SolveRequest named = unnamed;
  for (int i = 0; i < named.chain().stages_size(); ++i) {
    named.mutable_chain()->mutable_stages(i)->set_name(absl::StrCat("layer", i));
  }
  v1::SolveResponse response;
  const std::vector<std::pair<v1::SolveRequest, int>> requests = {
      {unnamed, 0}, {named, 1}, {named, 1}, {unnamed, 0}, {unnamed, 0}};
  for (const auto& [request, warnings] : requests) {
    ASSERT_TRUE(remote.Solve(request, &response).ok());
    ASSERT_EQ(response.warnings_size(), warnings) << response.DebugString();
  }
  ASSERT_TRUE(remote.Solve(named, &response).ok());
  EXPECT_EQ(response.warnings(0).reason(), "TIMES_DIFFER");
  EXPECT_EQ(response.warnings(0).field(), "chain.stages[0].forward_seconds");
  EXPECT_EQ(MetricOf(server, "stowage_answers_total{source=\"memory_cache\"}"), 5);
}

TEST(Cache, OneSolveAnswersEqualRequestsInFlight) {
  ServerProcess server;
  v1::SolveRequest request;
  *request.mutable_chain() = Profile("preact-resnet1001-8-224");
  request.mutable_platform()->set_memory_bytes(StoreAllPeakBytes(FromMessage(request.chain())) / 3);
  std::vector<std::jthread> callers;
  callers.reserve(50);
  std::atomic<int> right{0};
  for (int i = 0; i < 50; ++i) {
    callers.emplace_back([&] {
      v1::SolveResponse response;
      grpc::ClientContext context;
      context.set_wait_for_ready(true);  // a busy machine may have to connect again
      const grpc::Status status = Remote(server.address()).Solve(request, &response, &context);
      EXPECT_TRUE(status.ok()) << Text(status);
      if (response.outcome() != v1::OUTCOME_UNSPECIFIED) ++right;
    });
  }
  callers.clear();
  EXPECT_EQ(right, 50);
  EXPECT_EQ(MetricOf(server, "stowage_answers_total{source=\"solved\"}"), 1);
  EXPECT_EQ(MetricOf(server, "stowage_answers_total{source=\"coalesced\"}") +
                MetricOf(server, "stowage_answers_total{source=\"memory_cache\"}"),
            49);
}

TEST(Cache, ASecondServerOnTheDirectoryDoesWithoutAndSaysSo) {
  const TempFolder folder;
  const std::vector<std::string> flags = {"--cache-dir", folder.Path("cache")};
  ServerProcess first(flags);
  ServerProcess second(flags);
  EXPECT_NE(second.WaitForLogLine({"event=store_failed", "another process uses it"}), "");
  EXPECT_EQ(MetricOf(second, "stowage_store_failures_total{reason=\"unavailable\"}"), 1);
  const Remote remote(second.address());
  EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::SOLVED);
  EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::MEMORY_CACHE);
}

TEST(Cache, ADirectoryThatCannotBeUsedIsNoReasonNotToServe) {
  const TempFolder folder;
  ServerProcess server({"--cache-dir", folder.Write("file", "") + "/cache"});
  EXPECT_NE(server.WaitForLogLine({"event=store_failed", "--cache-dir"}), "");
  EXPECT_EQ(SolveAndCheck(Remote(server.address()), DistinctRequest(1)), v1::Origin::SOLVED);
}

TEST(Cache, AFullDiskIsCountedAndNothingElse) {
  const TempFolder folder;
  ServerProcess server({"--cache-dir", folder.Path("cache")});
  const Remote remote(server.address());
  EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(1)), v1::Origin::SOLVED);
  WaitForMetric(server, "stowage_cache_entries{tier=\"disk\"}", 1);
  const rlimit full{.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_FSIZE, &full, nullptr), 0);
  for (int number = 2; number < 8; ++number) {
    EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(number)), v1::Origin::SOLVED);
    EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(number)), v1::Origin::MEMORY_CACHE);
  }
  EXPECT_NE(server.WaitForLogLine({"event=store_failed", "cannot be written"}), "");
  EXPECT_GT(MetricOf(server, "stowage_store_failures_total{reason=\"unavailable\"}"), 0);
  // There is room again.
  const rlimit room{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_FSIZE, &room, nullptr), 0);
  const double before = MetricOf(server, "stowage_cache_entries{tier=\"disk\"}");
  EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(9)), v1::Origin::SOLVED);
  WaitForMetric(server, "stowage_cache_entries{tier=\"disk\"}", before + 1);
}

TEST(Cache, ADamagedFileIsCountedAndReplaced) {
  const TempFolder folder;
  const std::vector<std::string> flags = {"--cache-dir", folder.Path("cache")};
  {
    ServerProcess server(flags);
    for (int number = 0; number < 20; ++number)
      SolveAndCheck(Remote(server.address()), DistinctRequest(number));
    server.Signal(SIGTERM);
    EXPECT_THAT(server.WaitForExit(), Optional(0));
  }
  std::string file = ReadFile(folder.Path("cache/answers.db"));
  for (size_t at = 4096; at < file.size(); at += 97) file[at] = static_cast<char>(at);
  WriteFile(folder.Path("cache/answers.db"), file);
  ServerProcess server(flags);
  const Remote remote(server.address());
  for (int number = 0; number < 20; ++number) SolveAndCheck(remote, DistinctRequest(number));
  EXPECT_GE(MetricOf(server, "stowage_store_failures_total{reason=\"damaged\"}"), 1);
  EXPECT_NE(server.WaitForLogLine({"event=store_failed", "answers.db"}), "");
  for (int number = 0; number < 20; ++number) {
    EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(number)), v1::Origin::MEMORY_CACHE);
  }
}

TEST(Cache, AFileThatIsNoDatabaseIsCountedAndReplaced) {
  const TempFolder folder;
  const std::string path = folder.Write("answers.db", std::string(100'000, 'x'));
  ServerProcess server({"--cache-dir", folder.Path("")});
  EXPECT_EQ(MetricOf(server, "stowage_store_failures_total{reason=\"damaged\"}"), 1);
  EXPECT_NE(server.WaitForLogLine({"event=store_failed", "DATA_LOSS"}), "");
  EXPECT_EQ(ReadFile(path + ".damaged").size(), 100'000);
  EXPECT_EQ(SolveAndCheck(Remote(server.address()), DistinctRequest(1)), v1::Origin::SOLVED);
  WaitForMetric(server, "stowage_cache_entries{tier=\"disk\"}", 1);
}

}  // namespace
}  // namespace stowage
