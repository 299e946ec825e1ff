// Three servers and a Redis Cluster that fail one after the other while jobs ask: no job notices.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/rpc/failover_client.h"
#include "tests/integration/checked_answers.h"
#include "tests/integration/rpc.h"
#include "tests/support/callers.h"
#include "tests/support/process.h"
#include "tests/support/redis_nodes.h"

namespace stowage {
namespace {

// Jobs that ask one after the other, every fifth time something new; every answer is simulated.
std::vector<Callers::Ask> Jobs(const std::vector<std::string>& servers) {
  constexpr uint32_t kJobs = 8;
  RemoteOptions options;
  options.servers = servers;
  options.patience_seconds = std::chrono::duration<double>(kPatience).count();
  std::vector<Callers::Ask> jobs;
  for (uint32_t job = 0; job < kJobs; ++job) {
    jobs.emplace_back([client = std::make_shared<FailoverClient>(options, job)](int call) {
      const v1::SolveRequest request = DistinctRequest(call % 5 == 0 ? call / 5 : call % 7);
      const absl::StatusOr<v1::SolveResponse> response = client->Solve(request);
      if (response.ok()) ExpectRight(request, *response);
      return response.status();
    });
  }
  return jobs;
}

class Replicas : public testing::Test {
 protected:
  static constexpr size_t kServers = 3;
  // Of each job, between two faults: one whose server was killed waits for the lease of that to run
  // out, and may not lose another server meanwhile.
  static constexpr int kCalls = 20;

  void SetUp() override {
    flags_ = Flags();
    for (size_t i = 0; i < kServers; ++i) {
      servers_.push_back(std::make_unique<ServerProcess>(flags_));
      addresses_.push_back(servers_.back()->address());
    }
  }
  void Restart(size_t server) {
    servers_[server] = nullptr;
    servers_[server] = std::make_unique<ServerProcess>(flags_, addresses_[server]);
  }

  RedisClusterNodes nodes_;
  std::vector<std::string> flags_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::vector<std::string> addresses_;

 private:
  virtual std::vector<std::string> Flags() const {
    return {"--cache-dir", "none", "--client-rate", "0", "--shared-cache", nodes_.Url()};
  }
};

TEST_F(Replicas, MayFailOneAfterTheOther) {
  Callers jobs(Jobs(addresses_));
  jobs.AwaitCalls(kCalls);
  for (size_t server = 0; server < kServers; ++server) {
    servers_[server]->Signal(SIGKILL);
    jobs.AwaitCalls(kCalls);
    Restart(server);
    jobs.AwaitCalls(kCalls);
  }
  EXPECT_EQ(jobs.Stop(), std::vector<std::string>());
}

TEST_F(Replicas, MayBeReplacedOneAfterTheOther) {
  Callers jobs(Jobs(addresses_));
  for (size_t server = 0; server < kServers; ++server) {
    jobs.AwaitCalls(kCalls);
    servers_[server]->Signal(SIGTERM);
    EXPECT_EQ(servers_[server]->WaitForExit(), 0);
    Restart(server);
  }
  jobs.AwaitCalls(kCalls);
  EXPECT_EQ(jobs.Stop(), std::vector<std::string>());
}

TEST_F(Replicas, OutliveWhateverHappensToRedis) {
  nodes_.FailQuickly();
  Callers jobs(Jobs(addresses_));
  jobs.AwaitCalls(kCalls);
  nodes_.node(0).Signal(SIGSTOP);  // a master
  jobs.AwaitCalls(kCalls);
  nodes_.node(0).Signal(SIGCONT);
  jobs.AwaitCalls(kCalls);
  nodes_.Kill(0);
  nodes_.Kill(1);
  jobs.AwaitCalls(kCalls);
  for (size_t node = 2; node < nodes_.size(); ++node) nodes_.Kill(node);
  jobs.AwaitCalls(kCalls);
  for (size_t node = 0; node < nodes_.size(); ++node) nodes_.Start(node);
  jobs.AwaitCalls(kCalls);
  EXPECT_EQ(jobs.Stop(), std::vector<std::string>());
}

// With patience, so that all they solve is in Redis once they have ended.
class PatientReplicas : public Replicas {
  std::vector<std::string> Flags() const override {
    return {"--cache-dir",    "none",       "--client-rate",          "0",
            "--shared-cache", nodes_.Url(), "--shared-cache-timeout", "60s"};
  }
};

TEST_F(PatientReplicas, LeaveWhatTheyKnowToANewOne) {
  {
    Callers jobs(Jobs(addresses_));
    jobs.AwaitCalls(kCalls);
    EXPECT_EQ(jobs.Stop(), std::vector<std::string>());
  }
  for (const auto& server : servers_) {
    server->Signal(SIGTERM);
    EXPECT_EQ(server->WaitForExit(), 0);
  }
  const ServerProcess next(flags_);
  const Remote remote(next.address());
  for (int number = 0; number < 7; ++number) {
    EXPECT_EQ(SolveAndCheck(remote, DistinctRequest(number)), v1::Origin::SHARED_CACHE) << number;
  }
}

}  // namespace
}  // namespace stowage
