// HAProxy with deploy/haproxy/haproxy.cfg before a server: calls that are begun and held take
// nothing from others, and calls that wait, stream or are large pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/haproxy.h"
#include "tests/integration/raw_client.h"
#include "tests/integration/rpc.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using grpc::StatusCode;
using std::chrono::duration;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kReflection =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
constexpr const char* kWatch = "/grpc.health.v1.Health/Watch";

std::vector<std::string> ServerFlags() {
  return {"--trusted-proxy", "127.0.0.1", "--client-rate", "0"};
}

// What is sent of each call, which then is held.
struct Held {
  const char* name;
  const char* method;
  std::string request;
};

std::ostream& operator<<(std::ostream& out, const Held& held) { return out << held.name; }

class HeldCalls : public testing::TestWithParam<Held> {};

// From the honest client's own host, so that no limit of a host hides them from it.
TEST_P(HeldCalls, TakeNothingFromOthers) {
  constexpr int kConnections = 25;
  constexpr int kStreams = 100;
  constexpr int kHonestCalls = 50;
  ServerProcess server(ServerFlags());
  Haproxy haproxy({&server});
  const Remote honest(haproxy.address());
  ASSERT_TRUE(honest.Answers());

  std::vector<std::unique_ptr<RawGrpc>> holders;
  for (int i = 0; i < kConnections; ++i) {
    holders.push_back(std::make_unique<RawGrpc>(haproxy.address()));
    for (uint32_t call = 0; call < kStreams; ++call) {
      const uint32_t stream = 2 * call + 1;
      holders.back()->Begin(stream, GetParam().method);
      holders.back()->Send(stream, GetParam().request, kPatience);
    }
    // HAProxy has seen what came before.
    ASSERT_TRUE(holders.back()->Ping(kPatience));
  }

  double longest = 0;
  for (int i = 0; i < kHonestCalls; ++i) {
    const auto begin = steady_clock::now();
    v1::SolveResponse response;
    const grpc::Status status = honest.Solve(SmallSolveRequest(), &response);
    ASSERT_TRUE(status.ok()) << "call " << i << ": " << Text(status) << haproxy.Log();
    longest = std::max(longest, duration<double>(steady_clock::now() - begin).count());
  }
  std::cout << "longest wait " << longest << " s" << std::endl;
  for (const auto& holder : holders) EXPECT_TRUE(holder->Ping(kPatience));
  EXPECT_LE(haproxy.Figure("max_sessions", "one"), 200) << "calls that reached the server";
}

INSTANTIATE_TEST_SUITE_P(Haproxy, HeldCalls,
                         testing::Values(Held{"HeadersAlone", "Solve", ""},
                                         Held{"PartOfARequest", "SolveStream",
                                              GrpcMessage("x", 1000)},
                                         Held{"Reflection", kReflection, GrpcMessage("", 0)},
                                         Held{"HealthWatches", kWatch, GrpcMessage("", 0)}),
                         testing::PrintToStringParamName());

TEST(OpenCallsOfAHost, AreLimitedWhileOtherHostsAreServed) {
  std::vector<std::string> flags = ServerFlags();
  flags.insert(flags.end(), {"--threads", "1", "--short-threads", "0"});
  ServerProcess server(flags);
  Haproxy haproxy({&server}, {"STOWAGE_HOST_OPEN_CALLS=2"});
  const Remote remote(haproxy.address());
  const PendingSolve running(remote, LongSolveRequest());
  const PendingSolve waiting(remote, LongSolveRequest());
  haproxy.WaitForFigure("current_sessions", "one", "", 2);
  v1::SolveResponse response;
  const grpc::Status status = remote.Solve(SmallSolveRequest(), &response);
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << Text(status);
  EXPECT_THAT(status.error_message(), HasSubstr("too many calls"));

  RawGrpc other(haproxy.address(), 65535, "127.0.0.2");
  other.Begin(1, "ListSolvers");
  other.Send(1, GrpcMessage("", 0), kPatience);
  other.End(1);
  EXPECT_THAT(other.FramesUntilEnd(1, kPatience), StartsWith("HD"));
}

TEST(OpenCallsOfAHost, AreCountedUntilTheyEnd) {
  ServerProcess server(ServerFlags());
  Haproxy haproxy({&server}, {"STOWAGE_HOST_OPEN_CALLS=2"});
  const Remote remote(haproxy.address());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(remote.Answers()) << i;
}

// Takes two seconds, though it has a schedule at once.
v1::SolveRequest TwoSeconds() {
  v1::SolveRequest request = LongSolveRequest(10'000, int64_t{500} << 30);
  request.mutable_options()->set_time_budget_seconds(2);
  return request;
}

class ThroughHaproxy : public testing::Test {
 protected:
  ServerProcess server_{ServerFlags()};
  Haproxy haproxy_{{&server_}};
  const Remote remote_{haproxy_.address()};
};

TEST_F(ThroughHaproxy, LargeRequestsPass) {
  const std::string large(13'900'000, '\n');  // no message, which is known once it has been read
  const grpc::Status status = remote_.SendRaw("Solve", large);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << Text(status);
}

// `timeout client` is of a client that does not send its request, or does not read.
TEST_F(ThroughHaproxy, ACallWaitsForLongerThanAClientMayPause) {
  const TempFolder folder;
  const std::string shorter = absl::StrReplaceAll(ReadFile(kShippedHaproxy),
                                                  {{"timeout client 30s", "timeout client 500ms"}});
  ASSERT_THAT(shorter, HasSubstr("timeout client 500ms"));
  Haproxy haproxy({&server_}, {}, folder.Write("haproxy.cfg", shorter));
  v1::SolveResponse response;
  const grpc::Status status = Remote(haproxy.address()).Solve(TwoSeconds(), &response);
  EXPECT_TRUE(status.ok()) << Text(status);
  EXPECT_EQ(response.limit(), v1::TIME) << "it took all of its time";
}

TEST_F(ThroughHaproxy, ProgressArrivesBeforeTheAnswer) {
  grpc::ClientContext context;
  const auto stub = v1::Scheduler::NewStub(remote_.channel());
  const auto stream = stub->SolveStream(&context, TwoSeconds());
  v1::SolveEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_FALSE(event.has_answer()) << "the first event";
  while (stream->Read(&event)) {
  }
  EXPECT_TRUE(event.has_answer());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ThroughHaproxy, ReflectionAnswersBeforeTheCallersLastWord) {
  RawGrpc client(haproxy_.address());
  client.Begin(1, kReflection);
  client.Send(1, GrpcMessage("", 0), kPatience);
  // A proxy may pass on the answer in several frames.
  const auto deadline = steady_clock::now() + kPatience;
  while (!absl::StartsWith(client.FramesUntilEnd(1, std::chrono::milliseconds(20)), "HD")) {
    ASSERT_LT(steady_clock::now(), deadline);
  }
  client.End(1);
  EXPECT_THAT(client.FramesUntilEnd(1, kPatience), testing::MatchesRegex("HD+H"));
}

// gRPC's clients take UNIMPLEMENTED as "send the calls".
TEST_F(ThroughHaproxy, HealthIsCheckedButNotWatched) {
  EXPECT_EQ(remote_.Health(), HealthState::SERVING);
  const auto stub = grpc::health::v1::Health::NewStub(remote_.channel());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const auto watch = stub->Watch(&context, grpc::health::v1::HealthCheckRequest());
  grpc::health::v1::HealthCheckResponse response;
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), StatusCode::UNIMPLEMENTED);
}

TEST(HaproxyConfiguration, NamesTheVariableThatIsMissing) {
  const auto problem = [](const std::vector<std::string>& variables) {
    std::vector<std::string> argv = {"/usr/bin/env"};
    argv.insert(argv.end(), variables.begin(), variables.end());
    argv.insert(argv.end(), {"/usr/sbin/haproxy", "-c", "-f", kShippedHaproxy});
    const ProgramResult result = RunProgram(argv);
    return result.exit_code == 0 ? "none" : result.err;
  };
  const std::string one = "STOWAGE_SERVER=127.0.0.1:50051";
  const std::string two = "STOWAGE_SERVER_2=127.0.0.1:50053";
  const std::string ready = "STOWAGE_READY=127.0.0.1:50052";
  EXPECT_THAT(problem({}), HasSubstr("STOWAGE_SERVER is not set"));
  EXPECT_EQ(problem({one}), "none");
  EXPECT_THAT(problem({one, two}), HasSubstr("STOWAGE_READY is not set"));
  EXPECT_THAT(problem({one, ready, two}), HasSubstr("STOWAGE_READY_2 is not set"));
  EXPECT_EQ(problem({one, ready, two, "STOWAGE_READY_2=127.0.0.1:50054"}), "none");
}

// As its comment has it.
TEST(HaproxyConfiguration, EndsTls) {
  Office office;
  const Pair authority = office.Authority("authority");
  const Pair pair = office.Server("balancer", authority);
  const TempFolder folder;
  const std::string file = folder.Write("tls.pem", ReadFile(pair.certificate) + ReadFile(pair.key));
  ServerProcess server(ServerFlags());
  Haproxy haproxy({&server}, {}, kShippedHaproxy, " ssl crt " + file + " alpn h2");
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ReadFile(authority.certificate);
  const Remote remote(haproxy.address(), grpc::SslCredentials(options));
  EXPECT_TRUE(remote.Answers()) << haproxy.Log();
}

}  // namespace
}  // namespace stowage
