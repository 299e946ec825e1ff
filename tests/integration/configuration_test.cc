// Configuration files, and what SIGHUP changes in a running server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "proto/convert/json.h"
#include "stowage/v1/status.pb.h"
#include "tests/integration/metrics.h"
#include "tests/integration/raw_client.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::Optional;

constexpr uint32_t kWindowBytes = 65535;
constexpr const char* kToken = "0123456789abcdef0123456789abcdef";
constexpr const char* kOtherToken = "fedcba9876543210fedcba9876543210";

// A server with a configuration file.
class Configured {
 public:
  explicit Configured(const std::string& text, std::vector<std::string> flags = {})
      : file_(folder_.Write("server.toml", text)) {
    flags.insert(flags.begin(), {"--config", file_});
    server_.emplace(flags);
  }

  // Has the server read a new file, and returns the line about it that contains `parts`.
  std::string Reload(const std::string& text, const std::vector<std::string>& parts) {
    WriteFile(file_, text);
    server_->Signal(SIGHUP);
    return server_->WaitForLogLine(parts);
  }

  ServerProcess& server() { return *server_; }
  const std::string& file() const { return file_; }

 private:
  const TempFolder folder_;
  const std::string file_;
  std::optional<ServerProcess> server_;
};

std::vector<std::string> OneAtATime() { return {std::begin(kOneAtATime), std::end(kOneAtATime)}; }

grpc::Status SolveWith(const Remote& remote, const std::string& token) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  v1::SolveResponse response;
  return remote.Solve(SmallSolveRequest(), &response, &context);
}

TEST(Configuration, ComesFromTheFileUnlessTheCommandLineSaysOtherwise) {
  Configured configured("threads = 3\ngrace = \"7s\"\n", {"--grace", "5s"});
  EXPECT_NE(configured.server().WaitForLogLine({"event=serving", "threads=3"}), "");
  EXPECT_TRUE(Remote(configured.server().address()).Answers());
  configured.server().Signal(SIGTERM);
  EXPECT_THAT(configured.server().WaitForExit(), Optional(0));
  EXPECT_THAT(configured.server().Log(), HasSubstr("grace_seconds=5"));
}

TEST(Configuration, AFileThatIsWrongStopsTheStartInOneLine) {
  const TempFolder folder;
  const auto refusal = [](const std::string& file) {
    const ProgramResult result = RunProgram({Program("stowage-server"), "--config", file});
    EXPECT_EQ(result.exit_code, 1) << result;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result;
    return result.err;
  };
  const std::string file = folder.Write("server.toml", "thread = 3\n");
  EXPECT_THAT(refusal(file), AllOf(HasSubstr(file + ":1: 'thread'"), HasSubstr("--help")));
  EXPECT_THAT(refusal(folder.Write("server.toml", "grace = soon\n")),
              HasSubstr(file + ":1: --grace: "));
  EXPECT_THAT(refusal(folder.Path("none")), HasSubstr("none: No such file"));
  const std::string pipe = folder.Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal(pipe), HasSubstr(pipe + ": is no regular file"));
}

TEST(Reload, ChangesTheLogLevel) {
  Configured configured("log-level = info\n");
  const Remote remote(configured.server().address());
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_options()->set_use_cache(true);
  v1::SolveResponse response;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(remote.Solve(request, &response).ok());
  EXPECT_THAT(configured.server().Log(), Not(HasSubstr("level=debug")));
  EXPECT_NE(configured.Reload("log-level = debug\n",
                              {"level=info", "event=reloaded",
                               "changed=\"log-level: info -> debug\"", "restart_needed=none"}),
            "");
  // Memory cache hits are logged at this level alone.
  EXPECT_TRUE(remote.Solve(request, &response).ok());
  EXPECT_NE(configured.server().WaitForLogLine({"level=debug", "event=call", "MEMORY_CACHE"}), "");
}

TEST(Reload, ChangesTheGracePeriod) {
  Configured configured("grace = 1000s\n", OneAtATime());
  const Remote remote(configured.server().address());
  const auto running = Occupy(remote, LongSolveRequest());
  EXPECT_NE(configured.Reload("grace = 0.2s\n", {"event=reloaded", "grace: 1000s -> 0.2s"}), "");
  EXPECT_FALSE(running->ended());
  configured.server().Signal(SIGTERM);
  EXPECT_THAT(configured.server().WaitForExit(), Optional(0));
  EXPECT_THAT(configured.server().Log(), HasSubstr("grace_seconds=0.2"));
}

// What the server says of one of its options.
std::string ValueOfOption(const ServerProcess& server, const std::string& name) {
  const std::string answer = HttpGet(server.http_address(), "/status");
  v1::ServerStatus status;
  EXPECT_EQ(answer.substr(0, 4), "200 ");
  EXPECT_TRUE(FromJson(answer.substr(4), "status", &status).ok()) << answer;
  for (const v1::OptionText& option : status.options()) {
    if (option.name() == name) return option.value();
  }
  return "none";
}

TEST(Reload, IsSeenInTheStatus) {
  Configured configured("grace = 1000s\n");
  EXPECT_EQ(ValueOfOption(configured.server(), "grace"), "1000s");
  EXPECT_NE(configured.Reload("grace = 0.2s\nthreads = 7\n", {"event=reloaded"}), "");
  EXPECT_EQ(ValueOfOption(configured.server(), "grace"), "0.2s");
  EXPECT_EQ(ValueOfOption(configured.server(), "threads"), "default");  // takes a restart
}

TEST(Reload, ChangesTheLongestSolve) {
  Configured configured("max-solve-time = 3600s\n", OneAtATime());
  EXPECT_NE(configured.Reload("max-solve-time = 0.01s\n",
                              {"event=reloaded", "max-solve-time: 3600s -> 0.01s"}),
            "");
  v1::SolveResponse response;
  const grpc::Status status =
      Remote(configured.server().address()).Solve(LongSolveRequest(), &response);
  // Whether or not there is a schedule by then.
  EXPECT_TRUE(response.limit() == v1::TIME ||
              absl::StrContains(status.error_message(), "within 0.01 s, the longest time"))
      << Text(status);
}

// Without room for a second solve at a time.
std::vector<std::string> OneSolve() {
  return {"--threads", "1", "--short-threads", "0", "--solve-turn", "3600s"};
}

TEST(Reload, ChangesTheLengthOfTheQueueAndLeavesWhatRuns) {
  Configured configured("queue-length = 100\n", OneSolve());
  const Remote remote(configured.server().address());
  PendingSolve running(remote, LongSolveRequest());
  WaitForMetric(configured.server(), "stowage_solves_running", 1);
  EXPECT_NE(configured.Reload("queue-length = 0\n", {"event=reloaded", "queue-length: 100 -> 0"}),
            "");
  EXPECT_EQ(MetricOf(configured.server(), "stowage_solves_waiting_limit"), 0);
  v1::SolveResponse response;
  const grpc::Status refused = remote.Solve(SmallSolveRequest(), &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("the queue is full"));
  EXPECT_FALSE(running.ended());
}

TEST(Reload, ChangesTheLimitOfAClientAndLeavesWhatRuns) {
  Configured configured("client-limit = 64\n", OneSolve());
  const Remote remote(configured.server().address());
  PendingSolve running(remote, LongSolveRequest());
  WaitForMetric(configured.server(), "stowage_solves_running", 1);
  EXPECT_NE(configured.Reload("client-limit = 1\n", {"event=reloaded", "client-limit: 64 -> 1"}),
            "");
  v1::SolveResponse response;
  const grpc::Status refused = remote.Solve(SmallSolveRequest(), &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("this client has 1"));
  EXPECT_FALSE(running.ended());
}

TEST(Reload, ChangesTheMemoryOfRequests) {
  Configured configured("");
  const Remote remote(configured.server().address());
  EXPECT_TRUE(remote.Answers());
  EXPECT_NE(configured.Reload("request-memory = 1KiB\n",
                              {"event=reloaded", "request-memory: 512MiB -> 1KiB"}),
            "");
  EXPECT_EQ(MetricOf(configured.server(), "stowage_request_memory_limit_bytes"), 1024);
  v1::SolveResponse response;
  const grpc::Status refused = remote.Solve(SmallSolveRequest(), &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("more than is left for others"));
  EXPECT_NE(configured.Reload("", {"event=reloaded", "request-memory: 1KiB -> 512MiB"}), "");
  EXPECT_TRUE(remote.Answers());
}

// Where the answer to a small request comes from that may be cached.
v1::Origin::Source SourceOfAnswer(const Remote& remote) {
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_options()->set_use_cache(true);
  v1::SolveResponse response;
  const grpc::Status status = remote.Solve(request, &response);
  EXPECT_TRUE(status.ok()) << Text(status);
  return response.origin().source();
}

TEST(Reload, ChangesTheMemoryOfTheCache) {
  Configured configured("cache-memory = 256MiB\n");
  const Remote remote(configured.server().address());
  EXPECT_EQ(SourceOfAnswer(remote), v1::Origin::SOLVED);
  EXPECT_EQ(SourceOfAnswer(remote), v1::Origin::MEMORY_CACHE);
  EXPECT_NE(
      configured.Reload("cache-memory = 0\n", {"event=reloaded", "cache-memory: 256MiB -> 0"}), "");
  EXPECT_EQ(MetricOf(configured.server(), "stowage_cache_entries{tier=\"memory\"}"), 0);
  EXPECT_EQ(MetricOf(configured.server(), "stowage_cache_limit_bytes{tier=\"memory\"}"), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(SourceOfAnswer(remote), v1::Origin::SOLVED);
  EXPECT_NE(
      configured.Reload("cache-memory = 1MiB\n", {"event=reloaded", "cache-memory: 0 -> 1MiB"}),
      "");
  EXPECT_EQ(SourceOfAnswer(remote), v1::Origin::SOLVED);
  EXPECT_EQ(SourceOfAnswer(remote), v1::Origin::MEMORY_CACHE);
}

TEST(Reload, ChangesTheConnectionsOfAHostAndLeavesThoseThatItHas) {
  Configured configured("host-connections = 100\n");
  const std::string& address = configured.server().address();
  RawGrpc first(address);
  RawGrpc second(address);
  EXPECT_TRUE(first.Ping(kPatience) && second.Ping(kPatience));
  EXPECT_NE(
      configured.Reload("host-connections = 1\n", {"event=reloaded", "host-connections: 100 -> 1"}),
      "");
  EXPECT_TRUE(RawSocket(address).ClosedWithin(kPatience));
  EXPECT_NE(configured.server().WaitForLogLine({"event=connection_refused", "reason=host_limit"}),
            "");
  EXPECT_TRUE(RawGrpc(address, kWindowBytes, "127.0.0.2").Ping(kPatience)) << "of another host";
  EXPECT_TRUE(first.Ping(kPatience) && second.Ping(kPatience));
  EXPECT_NE(
      configured.Reload("host-connections = 0\n", {"event=reloaded", "host-connections: 1 -> 0"}),
      "");
  EXPECT_TRUE(RawGrpc(address).Ping(kPatience));
}

TEST(Reload, ChangesTheTrustedProxies) {
  Configured configured("host-connections = 1\n");
  const ServerProcess& server = configured.server();
  const Remote remote(server.address());
  const auto ask = [&remote] {
    grpc::ClientContext context;
    context.AddMetadata("x-forwarded-for", "192.0.2.7");
    v1::SolveResponse response;
    EXPECT_EQ(Text(remote.Solve(SmallSolveRequest(), &response, &context)), "OK");
  };
  ask();
  EXPECT_EQ(MetricOf(server, "stowage_client_calls_total{client=\"127.0.0.1\"}"), 1);
  EXPECT_TRUE(RawSocket(server.address()).ClosedWithin(kPatience));
  EXPECT_NE(configured.Reload("host-connections = 1\ntrusted-proxy = \"127.0.0.0/8\"\n",
                              {"event=reloaded", "trusted-proxy: default -> 127.0.0.0/8"}),
            "");
  EXPECT_NE(configured.server().WaitForLogLine({"event=unsafe", "--trusted-proxy 127.0.0.0/8"}),
            "");
  ask();
  EXPECT_EQ(MetricOf(server, "stowage_client_calls_total{client=\"192.0.2.7\"}"), 1);
  EXPECT_TRUE(RawGrpc(server.address()).Ping(kPatience)) << "a proxy has no limit of connections";
  EXPECT_NE(configured.Reload("host-connections = 1\n",
                              {"event=reloaded", "trusted-proxy: 127.0.0.0/8 -> default"}),
            "");
  ask();
  EXPECT_EQ(MetricOf(server, "stowage_client_calls_total{client=\"127.0.0.1\"}"), 2);
}

// What is left beside stacks and messages has been shared out by then.
TEST(Reload, LeavesMemoryAsItIsUnderALimitOnAddressSpace) {
  const TempFolder folder;
  const std::string file = folder.Write("server.toml", "threads = 2\n");
  BackgroundProgram server({"/usr/bin/prlimit", absl::StrCat("--as=", int64_t{4} << 30),
                            Program("stowage-server"), "--listen", "127.0.0.1:0", "--http", "none",
                            "--cache-dir", "none", "--config", file});
  ASSERT_NE(server.WaitForLogLine({"event=serving"}), "") << server.Log();
  WriteFile(file, "threads = 2\nrequest-memory = 1GiB\ncache-memory = 1GiB\n");
  server.Signal(SIGHUP);
  EXPECT_NE(
      server.WaitForLogLine({"event=reloaded", "changed=none", "request-memory: 512MiB -> 1GiB",
                             "cache-memory: 256MiB -> 1GiB"}),
      "")
      << server.Log();
}

TEST(Reload, SaysWhatTakesARestartUntilThen) {
  Configured configured("threads = 1\n");
  EXPECT_NE(configured.Reload("threads = 2\n", {"level=warning", "event=reloaded", "changed=none",
                                                "restart_needed=\"threads: 1 -> 2\""}),
            "");
  EXPECT_NE(configured.Reload("threads = 2\ngrace = 9s\n",
                              {"event=reloaded", "changed=\"grace: 30s -> 9s\"",
                               "restart_needed=\"threads: 1 -> 2\""}),
            "");
  EXPECT_NE(configured.Reload("grace = 9s\n", {"changed=none", "threads: 1 -> default"}), "");
}

TEST(Reload, OfAnInvalidFileChangesNothing) {
  Configured configured("log-level = info\n");
  EXPECT_NE(configured.Reload("log-level = debug\nthreads = 0\n",
                              {"level=error", "event=reload_failed",
                               configured.file() + ":2: --threads", "remedy="}),
            "");
  EXPECT_TRUE(Remote(configured.server().address()).Answers());
  // Had the level changed, nothing would be left to change.
  EXPECT_NE(configured.Reload("log-level = debug\n", {"log-level: info -> debug"}), "");
}

TEST(Reload, ReadsTokensWithoutAConfigurationFile) {
  const TempFolder folder;
  const std::string tokens = folder.Write("tokens", absl::StrCat("trainer ", kToken));
  ServerProcess server({"--token-file", tokens});
  const Remote remote(server.address());
  EXPECT_TRUE(SolveWith(remote, kToken).ok());
  WriteFile(tokens, absl::StrCat("trainer ", kOtherToken));
  server.Signal(SIGHUP);
  EXPECT_NE(server.WaitForLogLine({"event=reloaded", "changed=none", "restart_needed=none"}), "");
  EXPECT_TRUE(SolveWith(remote, kOtherToken).ok());
  EXPECT_FALSE(SolveWith(remote, kToken).ok());
}

TEST(Reload, DoesNotWaitForAPipeInPlaceOfTheTokens) {
  const TempFolder folder;
  const std::string tokens = folder.Write("tokens", absl::StrCat("trainer ", kToken));
  ServerProcess server({"--token-file", tokens});
  ASSERT_EQ(unlink(tokens.c_str()), 0);
  ASSERT_EQ(mkfifo(tokens.c_str(), 0600), 0);
  server.Signal(SIGHUP);
  EXPECT_NE(server.WaitForLogLine({"event=credentials_unusable", "no regular file"}), "");
  EXPECT_NE(server.WaitForLogLine({"event=reloaded"}), "");
  EXPECT_TRUE(SolveWith(Remote(server.address()), kToken).ok()) << "the old ones stay in force";
  server.Signal(SIGTERM);
  EXPECT_THAT(server.WaitForExit(), Optional(0)) << server.Log();
}

TEST(Reload, IsIgnoredWhileTheServerDrains) {
  Configured configured("grace = 1000s\n", OneAtATime());
  ServerProcess& server = configured.server();
  const Remote remote(server.address());
  const auto running = Occupy(remote, LongSolveRequest());
  server.Signal(SIGTERM);
  while (remote.Health() == HealthState::SERVING) {
  }
  server.Signal(SIGHUP);
  EXPECT_EQ(remote.Health(), HealthState::NOT_SERVING);
  EXPECT_FALSE(running->ended());
  running->Cancel();
  EXPECT_THAT(server.WaitForExit(), Optional(0)) << server.Log();
  EXPECT_THAT(server.Log(), AllOf(HasSubstr("event=stopped"), Not(HasSubstr("event=reloaded"))));
}

}  // namespace
}  // namespace stowage
