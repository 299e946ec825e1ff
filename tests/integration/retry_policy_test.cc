// The retry policies of gRPC's own clients, which know nothing of this service: what it tells them,
// and that they get over a restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::IsEmpty;
using testing::Optional;

// Of a Solve that fails, the value of one of its trailers; all else that it has to say is there.
std::string PushbackOf(const Remote& remote, const v1::SolveRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  v1::SolveResponse response;
  EXPECT_FALSE(remote.Solve(request, &response, &context).ok());
  EXPECT_THAT(context.GetServerInitialMetadata(), IsEmpty());
  const auto& trailers = context.GetServerTrailingMetadata();
  for (const char* key : {"x-request-id", "stowage-version", "grpc-status-details-bin"}) {
    EXPECT_EQ(trailers.count(key), 1U) << key;
  }
  const auto pushback = trailers.find("grpc-retry-pushback-ms");
  return pushback == trailers.end() ? "none"
                                    : std::string(pushback->second.data(), pushback->second.size());
}

TEST(Pushback, IsTheAdviceOfTheDetailsInMilliseconds) {
  std::vector<std::string> flags(std::begin(kOneAtATime), std::end(kOneAtATime));
  flags.insert(flags.end(), {"--grace", "100s"});
  ServerProcess server(flags);
  const Remote remote(server.address());
  const auto running = Occupy(remote, LongSolveRequest());
  EXPECT_EQ(PushbackOf(remote, SmallSolveRequest()), "1000");
  server.Signal(SIGTERM);
  // Refused by the draining engine: until that has begun, the queue is still merely full.
  v1::SolveResponse ignored;
  while (remote.Solve(SmallSolveRequest(), &ignored).error_code() !=
         grpc::StatusCode::UNAVAILABLE) {
  }
  EXPECT_EQ(PushbackOf(remote, SmallSolveRequest()), "1000");
}

// RESOURCE_EXHAUSTED alone does not tell a full queue from a solve that is too large.
TEST(Pushback, ForbidsRetriesThatDoNotHelp) {
  const ServerProcess server({"--solve-memory", "1MiB"});
  const Remote remote(server.address());
  EXPECT_EQ(PushbackOf(remote, v1::SolveRequest()), "none");
  v1::SolveRequest request = SmallSolveRequest();
  *request.mutable_chain() = Profile("preact-resnet1001-8-224");
  request.mutable_platform()->set_memory_bytes(int64_t{1} << 32);
  request.set_solver("rotor");
  EXPECT_EQ(PushbackOf(remote, request), "-1");
}

// Replaces servers one after the other, as a deployment does, while others call.
class RollingRestart : public testing::Test {
 protected:
  // `client`: flags of retrying_client.py.
  std::vector<std::string> ClientCommand(const std::vector<std::string>& client,
                                         const std::vector<std::string>& servers) {
    std::vector<std::string> command = {
        "/usr/bin/env", absl::StrCat("PYTHONPATH=", STOWAGE_ROOT, "/.cache/python"),
        "/usr/bin/python3", STOWAGE_ROOT "/tests/integration/retrying_client.py"};
    command.insert(command.end(), client.begin(), client.end());
    command.insert(command.end(),
                   {STOWAGE_ROOT "/deploy/grpc/service_config.json",
                    folder_.Write("request", SmallSolveRequest().SerializeAsString())});
    command.insert(command.end(), servers.begin(), servers.end());
    return command;
  }

  // On an address of its own: ports that other tests get do not collide with the one to come back
  // to. One host sends all the calls.
  static std::unique_ptr<ServerProcess> Start(const std::string& listen) {
    return std::make_unique<ServerProcess>(
        std::vector<std::string>{"--grace", "1s", "--client-rate", "0"}, listen);
  }

  // With a solve that outlasts the grace.
  static void RestartInMidSolve(std::unique_ptr<ServerProcess>& server) {
    {
      const Remote remote(server->address());
      grpc::ClientContext context;
      const auto stream =
          v1::Scheduler::NewStub(remote.channel())->SolveStream(&context, LongSolveRequest());
      v1::SolveEvent event;
      do {
        ASSERT_TRUE(stream->Read(&event));
      } while (!event.has_running());
      server->Signal(SIGTERM);
      while (stream->Read(&event)) {
      }
      (void)stream->Finish();
    }
    Replace(server);
  }

  static void Restart(std::unique_ptr<ServerProcess>& server) {
    server->Signal(SIGTERM);
    Replace(server);
  }

  // A server that ends. Returns once the new one has answered the client.
  static void Replace(std::unique_ptr<ServerProcess>& server) {
    const std::string address = server->address();
    EXPECT_THAT(server->WaitForExit(), Optional(0)) << server->Log();
    server = Start(address);
    const auto answered = [&] {
      return MetricOf(*server, "stowage_answers_total{source=\"solved\"}");
    };
    while (!(answered() >= kCalls)) {
    }
  }

  static constexpr int kCalls = 32;  // at a time
  const TempFolder folder_;
};

TEST_F(RollingRestart, OfTwoServersFailsNoCall) {
  std::vector<std::unique_ptr<ServerProcess>> servers;
  for (const char* listen : {"127.0.0.4:0", "127.0.0.5:0"}) servers.push_back(Start(listen));
  BackgroundProgram client(ClientCommand({}, {servers[0]->address(), servers[1]->address()}));
  ASSERT_NE(client.WaitForLogLine({"all threads have had an answer"}), "") << client.Log();
  for (std::unique_ptr<ServerProcess>& server : servers) RestartInMidSolve(server);
  client.Signal(SIGTERM);
  EXPECT_THAT(client.WaitForExit(), Optional(0)) << client.Log();
}

TEST_F(RollingRestart, OfTheOnlyServerFailsNoCallThatWaits) {
  std::unique_ptr<ServerProcess> server = Start("127.0.0.6:0");
  BackgroundProgram client(ClientCommand({"--wait-for-ready"}, {server->address()}));
  ASSERT_NE(client.WaitForLogLine({"all threads have had an answer"}), "") << client.Log();
  RestartInMidSolve(server);
  client.Signal(SIGTERM);
  EXPECT_THAT(client.WaitForExit(), Optional(0)) << client.Log();
}

// It drains at once, so that calls reach it at the moment it stops.
TEST_F(RollingRestart, OfAnIdleServerFailsNoCallThatWaits) {
  std::unique_ptr<ServerProcess> server = Start("127.0.0.7:0");
  BackgroundProgram client(ClientCommand({"--wait-for-ready"}, {server->address()}));
  ASSERT_NE(client.WaitForLogLine({"all threads have had an answer"}), "") << client.Log();
  for (int i = 0; i < 3; ++i) Restart(server);
  client.Signal(SIGTERM);
  EXPECT_THAT(client.WaitForExit(), Optional(0)) << client.Log();
}

}  // namespace
}  // namespace stowage
