// Several servers, of which some are dead, die, drain, hang or are full: the client's side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/lib/remote_scheduler.h"
#include "tests/integration/haproxy.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace stowage::failover_test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::Optional;
using testing::StartsWith;

// Nobody listens there.
constexpr const char* kDead = "127.0.0.1:1";

std::vector<std::string> SolveCommand(const std::string& servers,
                                      const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = {Program("stowage"), "solve",
                                      "--server",         servers,
                                      "--chain",          ProfilePath("pipedream-vgg16-128-224"),
                                      "--memory",         "50%"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// Three seconds, of which at first nothing is known to the caller.
std::vector<std::string> SlowSolveCommand(const std::string& servers) {
  return {Program("stowage"),
          "solve",
          "--server",
          servers,
          "--chain",
          ProfilePath("preact-resnet1001-8-224"),
          "--memory",
          "20%",
          "--offload-bandwidth",
          "12GB/s",
          "--progress",
          "--time-budget",
          "3s"};
}

testing::Matcher<const ProgramResult&> Succeeds() {
  return testing::Field("exit_code", &ProgramResult::exit_code, 0);
}

std::vector<std::string> OneAtATime() { return {std::begin(kOneAtATime), std::end(kOneAtATime)}; }

TEST(Failover, AnswersAlthoughOneServerIsDead) {
  ServerProcess server;
  // The servers are tried in a random order.
  for (int i = 0; i < 6; ++i) {
    EXPECT_THAT(RunProgram(SolveCommand(absl::StrCat(kDead, ",", server.address()))), Succeeds());
  }
}

TEST(Failover, SaysWhichServerIsDead) {
  ServerProcess server;
  std::string said;
  for (int i = 0; i < 50 && said.empty(); ++i) {
    const ProgramResult result =
        RunProgram(SolveCommand(absl::StrCat(kDead, ",", server.address()), {"--format", "json"}));
    EXPECT_THAT(result, Succeeds());
    EXPECT_THAT(result.out, AllOf(StartsWith("{"), Not(HasSubstr(kDead))));
    said = result.err;
  }
  EXPECT_THAT(said, AllOf(StartsWith(absl::StrCat("stowage: no answer from a server at ", kDead)),
                          EndsWith("; another server answered\n")));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST(Failover, NamesEveryServerWhereNoneAnswers) {
  const ProgramResult result = RunProgram(SolveCommand("127.0.0.1:1,127.0.0.1:2"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("127.0.0.1:2"),
                                HasSubstr("start stowage-server")));
}

std::vector<std::string> WithVariable(const std::string& variable,
                                      const std::vector<std::string>& command) {
  std::vector<std::string> all = {"/usr/bin/env", variable};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

// The server may well run: nobody knows.
TEST(Proxy, IsNamedWhereNoConnectionComesAboutThroughIt) {
  const ProgramResult down = RunProgram(
      WithVariable("http_proxy=http://me:secret@127.0.0.1:1/", SolveCommand("one.example:50051")));
  EXPECT_EQ(down.exit_code, 1);
  EXPECT_THAT(down.err, AllOf(HasSubstr("one.example:50051 through the proxy 127.0.0.1:1, that of "
                                        "http_proxy ("),
                              HasSubstr("check that the proxy runs"), Not(HasSubstr("secret"))));
  // It listens, and lets nobody through: it is no proxy.
  ServerProcess server;
  const ProgramResult refuses =
      RunProgram(WithVariable(absl::StrCat("grpc_proxy=http://", server.http_address()),
                              SolveCommand("one.example:50051")));
  EXPECT_EQ(refuses.exit_code, 1);
  EXPECT_THAT(refuses.err, AllOf(HasSubstr(absl::StrCat("through the proxy ", server.http_address(),
                                                        ", that of grpc_proxy (")),
                                 HasSubstr("check that the proxy runs")));
}

TEST(Proxy, IsLeftOutToThisMachine) {
  ServerProcess server;
  for (const char* variable : {"http_proxy", "https_proxy", "grpc_proxy"}) {
    EXPECT_THAT(RunProgram(WithVariable(absl::StrCat(variable, "=http://127.0.0.1:1"),
                                        SolveCommand(server.address()))),
                Succeeds());
  }
  const TempFolder folder;
  ServerProcess local({}, "unix:" + folder.Path("socket"));
  EXPECT_THAT(
      RunProgram(WithVariable("http_proxy=http://127.0.0.1:1", SolveCommand(local.address()))),
      Succeeds());
}

TEST(Failover, StartsAgainAtAnotherServerWhereOneDiesInMidSolve) {
  ServerProcess a;
  ServerProcess b;
  BackgroundProgram client(SlowSolveCommand(absl::StrCat(a.address(), ",", b.address())));
  ServerProcess* asked = nullptr;
  while (asked == nullptr) {
    for (ServerProcess* server : {&a, &b}) {
      if (MetricOf(*server, "stowage_solves_running") == 1) asked = server;
    }
  }
  asked->Signal(SIGKILL);
  EXPECT_THAT(client.WaitForExit(), Optional(0)) << client.Log();
  EXPECT_THAT(client.Log(),
              HasSubstr(absl::StrCat("no answer from a server at ", asked->address())));
  EXPECT_THAT(client.Log(), HasSubstr("asking again"));
}

struct ServerBehindHaproxy {
  ServerProcess server;
  Haproxy haproxy{{&server}};
};

// HAProxy answers on, and ends the stream without a status.
TEST(Failover, StartsAgainWhereAServerBehindAProxyDiesInMidStream) {
  ServerBehindHaproxy a;
  ServerBehindHaproxy b;
  BackgroundProgram client(
      SlowSolveCommand(absl::StrCat(a.haproxy.address(), ",", b.haproxy.address())));
  ASSERT_NE(client.WaitForLogLine({"best so far"}), "") << client.Log();
  ServerBehindHaproxy& asked = MetricOf(a.server, "stowage_solves_running") == 1 ? a : b;
  asked.server.Signal(SIGKILL);
  EXPECT_THAT(client.WaitForExit(), Optional(0)) << client.Log();
  EXPECT_THAT(client.Log(),
              AllOf(HasSubstr("no answer from a server at " + asked.haproxy.address()),
                    HasSubstr("asking again")));
}

// As a request would that ends the servers that it reaches.
TEST(Failover, LeavesAThirdServerAloneWhereTwoDieInMidSolve) {
  ServerProcess servers[3];
  BackgroundProgram client(SlowSolveCommand(
      absl::StrCat(servers[0].address(), ",", servers[1].address(), ",", servers[2].address())));
  const auto is_solving = [](const ServerProcess& server) {
    return MetricOf(server, "stowage_solves_running") == 1;
  };
  for (int killed = 0; killed < 2; ++killed) {
    ServerProcess* asked = nullptr;
    while (asked == nullptr) {
      for (ServerProcess& server : servers) {
        if (is_solving(server)) asked = &server;
      }
    }
    asked->Signal(SIGKILL);
    asked->WaitForExit();
  }
  EXPECT_THAT(client.WaitForExit(), Optional(1)) << client.Log();
  for (ServerProcess& server : servers) EXPECT_FALSE(is_solving(server));
}

TEST(Failover, LeavesAServerThatDrains) {
  std::vector<std::string> flags = OneAtATime();
  flags.insert(flags.end(), {"--grace", "100s"});
  ServerProcess draining(flags);
  ServerProcess other;
  const Remote remote(draining.address());
  const auto running = Occupy(remote, LongSolveRequest());
  draining.Signal(SIGTERM);
  ASSERT_NE(draining.WaitForLogLine({"event=draining"}), "");
  for (int i = 0; i < 4; ++i) {
    const ProgramResult result =
        RunProgram(SolveCommand(absl::StrCat(draining.address(), ",", other.address())));
    EXPECT_THAT(result, Succeeds());
  }
}

TEST(Failover, AsksTheOtherServerWhereTheQueueOfOneIsFull) {
  ServerProcess full(OneAtATime());
  ServerProcess other;
  const Remote remote(full.address());
  const auto running = Occupy(remote, LongSolveRequest());
  for (int i = 0; i < 4; ++i) {
    const ProgramResult result = RunProgram(
        SolveCommand(absl::StrCat(full.address(), ",", other.address()), {"--no-cache"}));
    EXPECT_THAT(result, Succeeds());
  }
}

TEST(Failover, WaitsForTheOnlyServersQueue) {
  ServerProcess server(OneAtATime());
  const Remote remote(server.address());
  const auto running = Occupy(remote, LongSolveRequest());
  BackgroundProgram client(SolveCommand(server.address(), {"--timeout", "100s"}));
  ASSERT_NE(server.WaitForLogLine({"method=Solve", "RESOURCE_EXHAUSTED"}), "");
  running->Cancel();
  EXPECT_THAT(client.WaitForExit(), Optional(0)) << client.Log();
}

TEST(Failover, LeavesAServerThatDoesNotSpeak) {
  ServerProcess hanging;
  ServerProcess other;
  hanging.Signal(SIGSTOP);
  for (int i = 0; i < 3; ++i) {
    const ProgramResult result =
        RunProgram(SolveCommand(absl::StrCat(hanging.address(), ",", other.address())));
    EXPECT_THAT(result, Succeeds());
  }
}

// Takes 40 s: a ping that is not answered says so.
TEST(Failover, NoticesAServerThatHangsInMidSolve) {
  ServerProcess hanging;
  BackgroundProgram client(SlowSolveCommand(hanging.address()));
  WaitForMetric(hanging, "stowage_solves_running", 1);
  hanging.Signal(SIGSTOP);
  EXPECT_THAT(client.WaitForExit(), Optional(1)) << client.Log();
  EXPECT_THAT(client.Log(),
              HasSubstr(absl::StrCat("no answer from a server at ", hanging.address())));
}

TEST(Failover, ReportsAnExecutionOnce) {
  ServerProcess server;
  for (int i = 0; i < 4; ++i) {
    RemoteOptions options;
    options.servers = {kDead, server.address()};
    RemoteScheduler scheduler(options);
    EXPECT_THAT(scheduler.ReportExecution({.fingerprint = std::string(64, 'a'),
                                           .predicted_step_seconds = 1,
                                           .measured_step_seconds = 1,
                                           .predicted_peak_bytes = 1,
                                           .measured_peak_bytes = 1,
                                           .agent = "test",
                                           .job = "test"}),
                IsOk());
  }
  EXPECT_EQ(MetricOf(server,
                     "grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"ReportExecution\","
                     "grpc_service=\"stowage.v1.Scheduler\",grpc_type=\"unary\"}"),
            4);
}

}  // namespace
}  // namespace stowage::failover_test
