// Three servers behind the packaged HAProxy with deploy/haproxy/haproxy.cfg: affinity, and a
// rolling restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/lib/rpc_client.h"
#include "tests/integration/metrics.h"
#include "tests/integration/raw_client.h"
#include "tests/integration/rpc.h"
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

// Goes round the questions until it is stopped. Asks each of them once.
class Caller {
 public:
  Caller(const std::string& address, int first)
      : client_(address, {}), thread_([this, first] { AskFrom(first); }) {}
  ~Caller() { (void)Stop(); }
  // What failed.
  std::vector<std::string> Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return failures_;
  }
  // Until so many more calls have ended, or kPatience is over.
  void WaitForMore(int calls) const {
    const auto deadline = steady_clock::now() + kPatience;
    const int enough = ended_ + calls;
    while (ended_ < enough && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    EXPECT_GE(ended_, enough);
  }

 private:
  void AskFrom(int first) {
    for (int number = first; !stop_; ++number) {
      const auto answer = client_.Solve(Question(number % kQuestions, "rolling"), std::nullopt);
      if (!answer.ok()) failures_.push_back(answer.status().ToString());
      ++ended_;
    }
  }

  RpcClient client_;
  std::vector<std::string> failures_;  // the thread's until it has ended
  std::atomic<int> ended_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class Balancer : public testing::Test {
 protected:
  struct Replica {
    std::string name;  // in the configuration
    std::unique_ptr<ServerProcess> server;
  };

  Balancer() {
    // Addresses of their own: ports that other tests get do not collide with those to come back to.
    replicas_.push_back({"one", Start("127.0.0.11:0", "127.0.0.11:0")});
    replicas_.push_back({"two", Start("127.0.0.12:0", "127.0.0.12:0")});
    replicas_.push_back({"three", Start("127.0.0.13:0", "127.0.0.13:0")});
    std::vector<std::string> argv = {"/usr/bin/env", "STOWAGE_BIND=" + address_,
                                     "STOWAGE_METRICS=" + metrics_address_};
    for (size_t i = 0; i < replicas_.size(); ++i) {
      const std::string number = i == 0 ? "" : absl::StrCat("_", i + 1);
      argv.push_back(absl::StrCat("STOWAGE_SERVER", number, "=", replicas_[i].server->address()));
      argv.push_back(
          absl::StrCat("STOWAGE_READY", number, "=", replicas_[i].server->http_address()));
    }
    argv.insert(argv.end(),
                {"/usr/sbin/haproxy", "-db", "-f", STOWAGE_ROOT "/deploy/haproxy/haproxy.cfg"});
    haproxy_ = std::make_unique<BackgroundProgram>(argv);
    WaitUntilListening(address_);
    WaitUntilListening(metrics_address_);
  }

  static std::unique_ptr<ServerProcess> Start(const std::string& listen, const std::string& http) {
    return std::make_unique<ServerProcess>(
        std::vector<std::string>{"--http", http, "--trusted-proxy", "127.0.0.1", "--client-rate",
                                 "0", "--lame-duck", "1000s"},
        listen);
  }

  // Until a figure of HAProxy's about a server has this value.
  void WaitForFigure(const std::string& figure, const Replica& replica, const std::string& labels,
                     double value) const {
    const std::string series = absl::StrCat(
        "haproxy_server_", figure, "{proxy=\"servers\",server=\"", replica.name, "\"", labels, "}");
    const auto deadline = steady_clock::now() + kPatience;
    while (ValueIn(HttpGet(metrics_address_, "/metrics"), series) != value) {
      ASSERT_LT(steady_clock::now(), deadline) << series << "\n" << haproxy_->Log();
      std::this_thread::sleep_for(milliseconds(20));
    }
  }
  void WaitUntilUp(const Replica& replica) const {
    WaitForFigure("status", replica, ",state=\"UP\"", 1);
  }

  // HAProxy notices that the server is about to stop, while that still answers; what it was asked
  // before is answered.
  void Restart(Replica& replica, const Caller& caller) const {
    const std::string address = replica.server->address();
    const std::string http = replica.server->http_address();
    replica.server->Signal(SIGTERM);
    WaitForFigure("status", replica, ",state=\"DOWN\"", 1);
    WaitForFigure("current_sessions", replica, "", 0);
    replica.server->Signal(SIGTERM);
    EXPECT_THAT(replica.server->WaitForExit(), Optional(0));
    caller.WaitForMore(kQuestions);
    replica.server = Start(address, http);
    WaitUntilUp(replica);
    caller.WaitForMore(kQuestions);
  }

  const std::string address_ = "127.0.0.1:" + FreePort();
  const std::string metrics_address_ = "127.0.0.1:" + FreePort();
  std::vector<Replica> replicas_;
  std::unique_ptr<BackgroundProgram> haproxy_;
};

TEST_F(Balancer, SendsEqualQuestionsOfAllJobsToOneServer) {
  for (const Replica& replica : replicas_) WaitUntilUp(replica);
  for (const char* job : {"first", "second", "third"}) {
    RpcClient client(address_, {});
    for (int number = 0; number < kQuestions; ++number) {
      const auto answer = client.Solve(Question(number, job), std::nullopt);
      ASSERT_TRUE(answer.ok()) << answer.status() << haproxy_->Log();
    }
  }
  double solved = 0;
  double cached = 0;
  for (const Replica& replica : replicas_) {
    const double own = MetricOf(*replica.server, "stowage_answers_total{source=\"solved\"}");
    EXPECT_GE(own, 1) << replica.name << " shares the work";
    solved += own;
    cached += MetricOf(*replica.server, "stowage_answers_total{source=\"memory_cache\"}");
  }
  EXPECT_EQ(solved, kQuestions) << "each by one server";
  EXPECT_EQ(cached, 2 * kQuestions);
}

TEST_F(Balancer, ARollingRestartFailsNoCall) {
  for (const Replica& replica : replicas_) WaitUntilUp(replica);
  std::vector<std::unique_ptr<Caller>> callers;
  for (int first = 0; first < kQuestions; first += 10) {
    callers.push_back(std::make_unique<Caller>(address_, first));
  }
  for (Replica& replica : replicas_) Restart(replica, *callers.front());
  for (const auto& caller : callers) {
    EXPECT_THAT(caller->Stop(), testing::IsEmpty()) << haproxy_->Log();
  }
}

}  // namespace
}  // namespace stowage
