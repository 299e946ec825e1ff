// stowage top against a real server: what it says of it, and how it leaves a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/process.h"
#include "tests/support/terminal_program.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kAlternateScreen = "\x1b[?1049h";
constexpr const char* kOrdinaryScreen = "\x1b[?1049l";

std::vector<std::string> Top(const std::string& http, const std::vector<std::string>& flags) {
  std::vector<std::string> argv = {Program("stowage"), "top",  "--http", http,
                                   "--interval",       "100ms"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  return argv;
}

// What one look says, for programs.
nlohmann::json Look(const ServerProcess& server) {
  const ProgramResult result = RunProgram(Top(server.http_address(), {"--once", "--format=json"}));
  EXPECT_EQ(result.exit_code, 0) << result;
  nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << result;
  return json;
}

v1::SolveRequest Cached(v1::SolveRequest request) {
  request.mutable_options()->set_use_cache(true);
  return request;
}

// An address that no other test's ports are on, for a server that comes back to its port.
std::string OwnAddress() {
  const int pid = getpid();
  return absl::StrCat("127.1.", pid / 250 % 250, ".", pid % 250 + 1, ":0");
}

// On a terminal, from a server that is there until it says so.
class TopScreen : public testing::Test {
 protected:
  TopScreen() { EXPECT_TRUE(top_.WaitFor(kAlternateScreen)); }

  void ExpectAllAsBefore() {
    EXPECT_EQ(top_.WaitForExit(), 0);
    EXPECT_TRUE(top_.HasOrdinaryModes());
    const size_t left = top_.output().rfind(kOrdinaryScreen);
    ASSERT_NE(left, std::string::npos);
    EXPECT_EQ(left + std::string(kOrdinaryScreen).size(), top_.output().size())
        << "it draws on what was there before";
    EXPECT_GT(top_.output().rfind("\x1b[?25h"), top_.output().rfind("\x1b[?25l")) << "no cursor";
  }

  std::unique_ptr<ServerProcess> server_ =
      std::make_unique<ServerProcess>(std::vector<std::string>{"--http", OwnAddress()});
  TerminalProgram top_{Top(server_->http_address(), {}), 120, 40};
};

TEST(Top, CountsCallsHitsAndErrors) {
  ServerProcess server;
  const Remote remote(server.address());
  v1::SolveResponse response;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(remote.Solve(Cached(SmallSolveRequest()), &response).ok());
  }
  v1::SolveRequest wrong = SmallSolveRequest();
  wrong.set_solver("no such solver");
  EXPECT_FALSE(remote.Solve(wrong, &response).ok());
  const nlohmann::json json = Look(server);
  EXPECT_EQ(json["reachable"], true);
  EXPECT_EQ(json["ready"], true);
  const nlohmann::json& all = json["since_start"];
  EXPECT_EQ(all["hit_ratio"], 0.75);
  EXPECT_EQ(all["answers"]["memory_cache"], 3);
  EXPECT_EQ(all["answers"]["solved"], 1);
  EXPECT_EQ(all["calls"]["Solve"]["calls"], 5);
  EXPECT_EQ(all["calls"]["Solve"]["errors"], (nlohmann::json{{"InvalidArgument", 1}}));
  EXPECT_GT(all["calls"]["Solve"]["latency_seconds"]["p50"], 0.0);
  EXPECT_EQ(all["rejected"]["invalid"], 1);
  EXPECT_EQ(json["caches"]["memory"]["entries"], 1);
  // No request came in the interval.
  EXPECT_EQ(json["last"]["calls"]["Solve"]["calls"], 0);
  EXPECT_TRUE(json["last"]["hit_ratio"].is_null());
  EXPECT_GT(json["last"]["seconds"], 0.09);
}

TEST(Top, ShowsALongSolveAndHowFarItIs) {
  ServerProcess server({"--threads", "1"});
  const Remote remote(server.address());
  PendingSolve running(remote, LongSolveRequest());
  nlohmann::json solve;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (solve.is_null() || solve["fraction"] == 0.0) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << solve;
    ASSERT_FALSE(running.ended());
    const nlohmann::json json = Look(server);
    if (!json["running"].empty()) solve = json["running"][0];
  }
  EXPECT_EQ(solve["thread"], 0);
  EXPECT_EQ(solve["solver"], "periodic");
  EXPECT_EQ(solve["stages"], 10'000);
  EXPECT_GT(solve["seconds"], 0.0);
  EXPECT_LT(solve["fraction"], 1.0);
  const ProgramResult text = RunProgram(Top(server.http_address(), {"--once"}));
  EXPECT_THAT(text.out, AllOf(HasSubstr("1/1 running"), HasSubstr("thread 0        periodic"),
                              HasSubstr("10000"), HasSubstr("░")));
  running.Cancel();
  WaitForMetric(server, "stowage_solves_running", 0);
  EXPECT_TRUE(Look(server)["running"].empty());
}

TEST(Top, PrintsABlockAnIntervalWithoutEscapeCodes) {
  ServerProcess server;
  const ProgramResult result = RunProgram(Top(server.http_address(), {"--count", "3"}));
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
  size_t blocks = 0;
  for (size_t at = 0; (at = result.out.find("RUNNING", at)) != std::string::npos; ++at) ++blocks;
  EXPECT_EQ(blocks, 3) << result;
}

TEST(Top, SaysSoWhenNobodyAnswers) {
  const ProgramResult result = RunProgram(Top("127.0.0.1:1", {}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("no status from 127.0.0.1:1 (cannot connect); start stowage-server"));
  EXPECT_EQ(result.out, "");
}

TEST(Top, TellsTheMetricsPortFromTheOther) {
  ServerProcess server;
  const ProgramResult result = RunProgram(Top(server.address(), {}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("(not --listen)"));
}

// Such as one from before /status.
TEST(Top, SaysThatAServerIsTooOld) {
  httplib::Server old;
  old.Get("/metrics", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("stowage_build_info{version=\"0.0.9\"} 1\n", "text/plain");
  });
  const int port = old.bind_to_any_port("127.0.0.1");
  std::thread thread([&old] { old.listen_after_bind(); });
  const ProgramResult result = RunProgram(Top(absl::StrCat("127.0.0.1:", port), {}));
  old.stop();
  thread.join();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("it has no /status: not the --http of a stowage-server, or of "
                                    "an older one, which needs a stowage of its own version"));
}

TEST(Top, SaysUnderWhichNameTheServerRefusesIt) {
  httplib::Server server;
  server.Get("/status", [](const httplib::Request&, httplib::Response& response) {
    response.status = 403;
    response.set_content("host: use its address\n", "text/plain");
  });
  const int port = server.bind_to_any_port("127.0.0.1");
  std::thread thread([&server] { server.listen_after_bind(); });
  const std::string address = absl::StrCat("127.0.0.1:", port);
  const ProgramResult result = RunProgram(Top(address, {}));
  server.stop();
  thread.join();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr(absl::StrCat("no status from ", address, ": host: use its address\n")));
}

TEST(Top, GoesOnWhileTheServerIsAwayAndSaysThatItCameBackAnew) {
  auto server = std::make_unique<ServerProcess>(std::vector<std::string>{"--http", OwnAddress()});
  const std::string http = server->http_address();
  EXPECT_TRUE(Remote(server->address()).Answers());
  TerminalProgram top(Top(http, {"--format", "json"}), 80, 24);
  ASSERT_TRUE(top.WaitFor("\"reachable\":true"));
  ASSERT_TRUE(top.WaitFor("\"solved\":1"));
  server->Signal(SIGKILL);
  server->WaitForExit();
  ASSERT_TRUE(top.WaitFor("\"reachable\":false,\"problem\":\"cannot connect\""));
  server = std::make_unique<ServerProcess>(std::vector<std::string>{"--http", http});
  ASSERT_TRUE(top.WaitFor("\"restarts_seen\":1"));
  // The new one has counted nothing, and has no interval with the old one.
  ASSERT_TRUE(top.WaitFor("\"last\":null"));
  ASSERT_TRUE(top.WaitFor("\"solved\":0"));
  ASSERT_TRUE(top.WaitFor("\"last\":{"));
  EXPECT_THAT(top.output(), Not(HasSubstr("\x1b")));
  top.Signal(SIGINT);
  EXPECT_EQ(top.WaitForExit(), 128 + SIGINT);
}

TEST_F(TopScreen, ShowsTheServerUntilQIsTyped) {
  EXPECT_TRUE(top_.WaitFor(server_->http_address() + ", ready"));
  EXPECT_TRUE(top_.WaitFor("RUNNING"));
  EXPECT_FALSE(top_.HasOrdinaryModes());
  top_.Type("xyz");
  EXPECT_TRUE(top_.WaitFor("RUNNING"));
  top_.Type("q");
  ExpectAllAsBefore();
}

TEST_F(TopScreen, EndsWithCtrlC) {
  EXPECT_TRUE(top_.WaitFor("RUNNING"));
  top_.Type("\x03");
  ExpectAllAsBefore();
}

TEST_F(TopScreen, EndsWithASignal) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    TerminalProgram top(Top(server_->http_address(), {}), 80, 24);
    EXPECT_TRUE(top.WaitFor("RUNNING"));
    top.Signal(signal);
    EXPECT_EQ(top.WaitForExit(), 0);
    EXPECT_TRUE(top.HasOrdinaryModes());
    EXPECT_THAT(top.output(), testing::EndsWith(kOrdinaryScreen));
  }
  top_.Type("q");
  ExpectAllAsBefore();
}

TEST_F(TopScreen, FollowsTheTerminalsSize) {
  EXPECT_TRUE(top_.WaitFor("RUNNING"));
  top_.Resize(80, 8);
  EXPECT_TRUE(top_.WaitFor("more lines: make the terminal higher"));
  top_.Resize(80, 40);
  EXPECT_TRUE(top_.WaitFor("RUNNING"));
  top_.Type("q");
  ExpectAllAsBefore();
}

TEST_F(TopScreen, GivesTheTerminalBackWhileItIsSuspended) {
  EXPECT_TRUE(top_.WaitFor("RUNNING"));
  top_.Type("\x1a");
  ASSERT_TRUE(top_.WaitUntilStopped());
  EXPECT_TRUE(top_.WaitFor(kOrdinaryScreen));
  EXPECT_TRUE(top_.HasOrdinaryModes());
  top_.Signal(SIGCONT);
  EXPECT_TRUE(top_.WaitFor(kAlternateScreen));
  EXPECT_TRUE(top_.WaitFor("RUNNING"));
  EXPECT_FALSE(top_.HasOrdinaryModes());
  top_.Type("q");
  ExpectAllAsBefore();
}

TEST_F(TopScreen, OutlivesItsServer) {
  const std::string http = server_->http_address();
  EXPECT_TRUE(top_.WaitFor("ready"));
  server_->Signal(SIGKILL);
  server_->WaitForExit();
  EXPECT_TRUE(top_.WaitFor("NO ANSWER for 0 s: cannot connect"));
  EXPECT_TRUE(top_.WaitFor("ready"));  // what it said last is still there
  server_ = std::make_unique<ServerProcess>(std::vector<std::string>{"--http", http});
  EXPECT_TRUE(top_.WaitFor("RESTARTED 1 time while watched"));
  top_.Type("q");
  ExpectAllAsBefore();
}

// It accepts a connection, and says nothing: SIGSTOP leaves the kernel to do so.
TEST_F(TopScreen, EndsAtOnceThoughTheServerHangs) {
  EXPECT_TRUE(top_.WaitFor("ready"));
  server_->Signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto typed = std::chrono::steady_clock::now();
  top_.Type("q");
  ExpectAllAsBefore();
  EXPECT_LT(std::chrono::steady_clock::now() - typed, std::chrono::seconds(2));
}

}  // namespace
}  // namespace stowage
