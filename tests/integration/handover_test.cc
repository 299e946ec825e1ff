// A server takes over the ports of another one, on the same machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/callers.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::IsEmpty;
using testing::Optional;
using testing::StartsWith;

// Solves over a connection of its own. A call that has not been sent may connect again: Linux
// resets a connection that comes in the moment in which a server leaves the port.
absl::Status SolveOnce(const std::string& address) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  v1::SolveResponse response;
  const grpc::Status status = Remote(address).Solve(SmallSolveRequest(), &response, &context);
  return status.ok() ? absl::OkStatus() : absl::UnknownError(Text(status));
}

// A lame duck until a second signal. The callers connect again and again.
std::vector<std::string> Sharing(const std::string& http = "127.0.0.1:0") {
  return {"--reuse-port",  "--http", http, "--lame-duck", "1000s", "--host-connections", "0",
          "--client-rate", "0"};
}

double SolvesOf(const ServerProcess& server) {
  return MetricOf(server,
                  "grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Solve\","
                  "grpc_service=\"stowage.v1.Scheduler\",grpc_type=\"unary\"}");
}

TEST(Handover, ASecondServerTakesOverThePortAndNoCallFails) {
  ServerProcess first(Sharing());
  const std::string& address = first.address();
  const Remote kept(address);
  EXPECT_TRUE(kept.Answers());
  Callers caller({[&address](int /*number*/) { return SolveOnce(address); }});
  caller.AwaitCalls(2);
  ServerProcess second(Sharing(), address);
  ASSERT_EQ(second.address(), address);
  EXPECT_NE(second.http_address(), first.http_address()) << "a port of 0 is any free one";
  caller.AwaitCalls(2);

  first.Signal(SIGTERM);
  ASSERT_NE(first.WaitForLogLine({"event=lame_duck"}), "") << first.Log();
  EXPECT_TRUE(kept.Answers()) << "over a connection that the first has";
  caller.AwaitCalls(2);  // what the first accepted has been answered
  first.Signal(SIGTERM);
  EXPECT_THAT(first.WaitForExit(), Optional(0)) << first.Log();
  caller.AwaitCalls(2);
  EXPECT_THAT(caller.Stop(), IsEmpty());

  const double before = SolvesOf(second);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Remote(address).Answers());
  EXPECT_EQ(SolvesOf(second), before + 5);
}

TEST(Handover, ALameDuckLeavesNewConnectionsToTheOtherServer) {
  ServerProcess first(Sharing());
  const std::string& address = first.address();
  EXPECT_TRUE(Remote(address).Answers());
  ServerProcess second(Sharing(first.http_address()), address);
  first.Signal(SIGTERM);
  ASSERT_NE(first.WaitForLogLine({"event=lame_duck"}), "") << first.Log();
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(HttpGet(first.http_address(), "/readyz"), StartsWith("200"));
    EXPECT_EQ(Remote(address).Health(), HealthState::SERVING);
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Remote(address).Answers());
  EXPECT_EQ(SolvesOf(second), 20);
}

}  // namespace
}  // namespace stowage
