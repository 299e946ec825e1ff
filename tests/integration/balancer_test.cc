// Three servers behind one address, that of the packaged HAProxy with deploy/haproxy/haproxy.cfg or
// one that passes connections on: affinity, and rolling restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/lib/rpc/failover_client.h"
#include "client/lib/rpc/rpc_client.h"
#include "tests/integration/haproxy.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/callers.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::Optional;

constexpr int kQuestions = 40;

v1::SolveRequest Question(int number, const std::string& job) {
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_options()->set_use_cache(true);
  request.mutable_chain()->set_name(job);
  request.mutable_chain()->mutable_stages(0)->set_forward_seconds(1 + number);
  return request;
}

// Goes round the questions. A call and nothing else.
Callers::Ask OneAttempt(const std::string& address) {
  return [client = std::make_shared<RpcClient>(address, Credentials())](int number) {
    return client->Solve(Question(number % kQuestions, "rolling"), std::nullopt).status();
  };
}

// As our programs do.
Callers::Ask OurClient(const std::string& address) {
  RemoteOptions options;
  options.servers = {address};
  return [client = std::make_shared<FailoverClient>(options)](int number) {
    return client->Solve(Question(number % kQuestions, "rolling")).status();
  };
}

struct Replica {
  std::string name;  // in the configuration
  std::unique_ptr<ServerProcess> server;
};

std::unique_ptr<ServerProcess> StartReplica(const std::string& listen, const std::string& http) {
  return std::make_unique<ServerProcess>(
      std::vector<std::string>{"--http", http, "--trusted-proxy", "127.0.0.1", "--client-rate", "0",
                               "--lame-duck", "1000s"},
      listen);
}

// Passes connections on to servers that are ready, as a Service of Kubernetes does.
constexpr const char* kPassingHaproxy = R"(
defaults
  mode tcp
  timeout connect 5s
  timeout client 15m
  timeout server 15m
listen servers
  bind "${STOWAGE_BIND}"
  option httpchk GET /readyz
  default-server check inter 500ms fall 2 rise 1
  server one "${STOWAGE_SERVER}" addr "${STOWAGE_READY}"
  server two "${STOWAGE_SERVER_2}" addr "${STOWAGE_READY_2}"
  server three "${STOWAGE_SERVER_3}" addr "${STOWAGE_READY_3}"
frontend metrics
  mode http
  timeout http-request 10s
  bind "${STOWAGE_METRICS}"
  http-request use-service prometheus-exporter
)";

// Of a balancer: the shipped configuration, or the one above.
enum class Kind { kReadsCalls, kPassesConnections };

// Three servers, and what gives them one address.
class ThreeServers {
 public:
  explicit ThreeServers(Kind kind)
      : kind_(kind),
        haproxy_({replicas_[0].server.get(), replicas_[1].server.get(), replicas_[2].server.get()},
                 {},
                 kind == Kind::kReadsCalls ? kShippedHaproxy
                                           : folder_.Write("haproxy.cfg", kPassingHaproxy)) {}

  // Once all of them get calls.
  const std::string& Address() {
    for (const Replica& replica : replicas_) haproxy_.WaitUntilUp(replica.name);
    return haproxy_.address();
  }

  // One after the other. The balancer notices that a server is about to stop while that still
  // answers; what it was asked before is answered. `wait` is called while a server is about to
  // stop, once it has stopped, and when it is back.
  void RestartAll(const std::function<void()>& wait) {
    for (Replica& replica : replicas_) {
      const std::string address = replica.server->address();
      const std::string http = replica.server->http_address();
      replica.server->Signal(SIGTERM);
      haproxy_.WaitUntilDown(replica.name);
      wait();
      // Connections that are passed on stay until the server ends them.
      if (kind_ == Kind::kReadsCalls) {
        haproxy_.WaitForFigure("current_sessions", replica.name, "", 0);
      }
      replica.server->Signal(SIGTERM);
      EXPECT_THAT(replica.server->WaitForExit(), Optional(0));
      wait();
      replica.server = StartReplica(address, http);
      haproxy_.WaitUntilUp(replica.name);
      wait();
    }
  }

  // Of those that run, since they were started last.
  double AnswersFrom(const std::string& source) const {
    double answers = 0;
    for (const Replica& replica : replicas_) {
      const double own = AnswersOf(replica, source);
      if (!std::isnan(own)) answers += own;
    }
    return answers;
  }
  static double AnswersOf(const Replica& replica, const std::string& source) {
    return MetricOf(*replica.server,
                    absl::StrCat("stowage_answers_total{source=\"", source, "\"}"));
  }

  const std::vector<Replica>& replicas() const { return replicas_; }
  std::string Log() { return haproxy_.Log(); }

 private:
  static std::vector<Replica> StartAll() {
    // Addresses of their own: ports that other tests get do not collide with those to come back to.
    std::vector<Replica> replicas;
    replicas.push_back({"one", StartReplica("127.0.0.11:0", "127.0.0.11:0")});
    replicas.push_back({"two", StartReplica("127.0.0.12:0", "127.0.0.12:0")});
    replicas.push_back({"three", StartReplica("127.0.0.13:0", "127.0.0.13:0")});
    return replicas;
  }

  const Kind kind_;
  const TempFolder folder_;
  std::vector<Replica> replicas_ = StartAll();
  Haproxy haproxy_;
};

TEST(Balancer, SendsEqualQuestionsOfAllJobsToOneServer) {
  ThreeServers servers(Kind::kReadsCalls);
  for (const char* job : {"first", "second", "third"}) {
    RpcClient client(servers.Address(), {});
    for (int number = 0; number < kQuestions; ++number) {
      const auto answer = client.Solve(Question(number, job), std::nullopt);
      ASSERT_TRUE(answer.ok()) << answer.status() << servers.Log();
    }
  }
  for (const Replica& replica : servers.replicas()) {
    EXPECT_GE(ThreeServers::AnswersOf(replica, "solved"), 1) << replica.name << " shares the work";
  }
  EXPECT_EQ(servers.AnswersFrom("solved"), kQuestions) << "each by one server";
  EXPECT_EQ(servers.AnswersFrom("memory_cache"), 2 * kQuestions);
}

struct RollingRestart {
  const char* name;
  Kind kind;
  Callers::Ask (*client)(const std::string& address);
};
std::ostream& operator<<(std::ostream& out, const RollingRestart& test) { return out << test.name; }

class ARollingRestart : public testing::TestWithParam<RollingRestart> {};

TEST_P(ARollingRestart, FailsNoCall) {
  ThreeServers servers(GetParam().kind);
  constexpr int kCallers = 4;
  std::vector<Callers::Ask> asking;
  for (int i = 0; i < kCallers; ++i) asking.push_back(GetParam().client(servers.Address()));
  Callers callers(std::move(asking));
  servers.RestartAll([&] { callers.AwaitCalls(kQuestions); });
  EXPECT_THAT(callers.Stop(), testing::IsEmpty()) << servers.Log();
  std::cout << "longest wait " << callers.longest_seconds() << " s" << std::endl;
}

INSTANTIATE_TEST_SUITE_P(
    Balancer, ARollingRestart,
    testing::Values(RollingRestart{"BehindHaproxy", Kind::kReadsCalls, OneAttempt},
                    RollingRestart{"OfOurClientsBehindHaproxy", Kind::kReadsCalls, OurClient},
                    RollingRestart{"OfOurClientsWhoseConnectionsArePassedOn",
                                   Kind::kPassesConnections, OurClient}),
    testing::PrintToStringParamName());

// gRPC's own client, by a service config.
struct ConfiguredRestart {
  const char* name;
  Kind kind;
  const char* config;  // of deploy/grpc
};
std::ostream& operator<<(std::ostream& out, const ConfiguredRestart& test) {
  return out << test.name;
}

class ARollingRestartWithAServiceConfig : public testing::TestWithParam<ConfiguredRestart> {};

TEST_P(ARollingRestartWithAServiceConfig, FailsNoCall) {
  constexpr int kCalls = 64;
  ThreeServers servers(GetParam().kind);
  const TempFolder folder;
  BackgroundProgram client(
      {"/usr/bin/env", absl::StrCat("PYTHONPATH=", STOWAGE_ROOT, "/.cache/python"),
       "/usr/bin/python3", STOWAGE_ROOT "/tests/integration/retrying_client.py",
       absl::StrCat(STOWAGE_ROOT, "/deploy/grpc/", GetParam().config),
       folder.Write("request", SmallSolveRequest().SerializeAsString()), servers.Address()});
  ASSERT_NE(client.WaitForLogLine({"all threads have had an answer"}), "") << client.Log();
  servers.RestartAll([&] {
    const auto deadline = steady_clock::now() + kPatience;
    const double enough = servers.AnswersFrom("solved") + kCalls;
    while (servers.AnswersFrom("solved") < enough) {
      ASSERT_LT(steady_clock::now(), deadline) << "calls do not go on\n" << servers.Log();
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  client.Signal(SIGTERM);
  EXPECT_THAT(client.WaitForExit(), Optional(0)) << client.Log();
  std::cout << client.Log();
}

INSTANTIATE_TEST_SUITE_P(
    Balancer, ARollingRestartWithAServiceConfig,
    testing::Values(
        ConfiguredRestart{"ForAListBehindHaproxy", Kind::kReadsCalls, "service_config.json"},
        ConfiguredRestart{"ForOneAddressBehindHaproxy", Kind::kReadsCalls, "single_address.json"},
        ConfiguredRestart{"ForOneAddressWhoseConnectionsArePassedOn", Kind::kPassesConnections,
                          "single_address.json"}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace stowage
