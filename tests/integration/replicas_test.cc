// Three servers and a Redis Cluster that fail one after the other while jobs ask: no job notices.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "client/lib/rpc/failover_client.h"
#include "solver/base/mutex.h"
#include "tests/integration/checked_answers.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/process.h"
#include "tests/support/redis_nodes.h"

namespace stowage {
namespace {

// Jobs that ask one after the other, every fifth time something new; every answer is simulated.
class Jobs {
 public:
  explicit Jobs(const std::vector<std::string>& servers) {
    for (size_t job = 0; job < kJobs; ++job) {
      threads_.emplace_back([this, servers, job] { Ask(servers, job); });
    }
  }
  ~Jobs() { Stop(); }

  // Until each of them has so many answers more: one whose server was killed waits for the lease of
  // that to run out, and may not lose another server meanwhile.
  void AwaitAnswers(int more) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::array<int, kJobs> enough;
    for (size_t job = 0; job < kJobs; ++job) enough[job] = answers_[job] + more;
    for (size_t job = 0; job < kJobs; ++job) {
      while (answers_[job] < enough[job]) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
  }
  // What failed.
  std::vector<std::string> Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
    MutexLock lock(mutex_);
    return failures_;
  }

 private:
  static constexpr size_t kJobs = 8;

  void Ask(const std::vector<std::string>& servers, size_t job) {
    RemoteOptions options;
    options.servers = servers;
    options.patience_seconds = std::chrono::duration<double>(kPatience).count();
    FailoverClient client(options, static_cast<uint32_t>(job));
    while (!stop_) {
      const int call = calls_++;
      const v1::SolveRequest request = DistinctRequest(call % 5 == 0 ? call / 5 : call % 7);
      const absl::StatusOr<v1::SolveResponse> response = client.Solve(request);
      if (response.ok()) {
        ExpectRight(request, *response);
        ++answers_[job];
      } else {
        MutexLock lock(mutex_);
        failures_.push_back(response.status().ToString());
      }
    }
  }

  std::atomic<int> calls_ = 0;
  std::array<std::atomic<int>, kJobs> answers_ = {};  // of each job
  std::atomic<bool> stop_ = false;
  Mutex mutex_;
  std::vector<std::string> failures_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // last: they use all of the above
};

class Replicas : public testing::Test {
 protected:
  static constexpr size_t kServers = 3;
  static constexpr int kAnswers = 20;  // of each job, between two faults

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
  Jobs jobs(addresses_);
  jobs.AwaitAnswers(kAnswers);
  for (size_t server = 0; server < kServers; ++server) {
    servers_[server]->Signal(SIGKILL);
    jobs.AwaitAnswers(kAnswers);
    Restart(server);
    jobs.AwaitAnswers(kAnswers);
  }
  EXPECT_EQ(jobs.Stop(), std::vector<std::string>());
}

TEST_F(Replicas, MayBeReplacedOneAfterTheOther) {
  Jobs jobs(addresses_);
  for (size_t server = 0; server < kServers; ++server) {
    jobs.AwaitAnswers(kAnswers);
    servers_[server]->Signal(SIGTERM);
    EXPECT_EQ(servers_[server]->WaitForExit(), 0);
    Restart(server);
  }
  jobs.AwaitAnswers(kAnswers);
  EXPECT_EQ(jobs.Stop(), std::vector<std::string>());
}

TEST_F(Replicas, OutliveWhateverHappensToRedis) {
  nodes_.FailQuickly();
  Jobs jobs(addresses_);
  jobs.AwaitAnswers(kAnswers);
  nodes_.node(0).Signal(SIGSTOP);  // a master
  jobs.AwaitAnswers(kAnswers);
  nodes_.node(0).Signal(SIGCONT);
  jobs.AwaitAnswers(kAnswers);
  nodes_.Kill(0);
  nodes_.Kill(1);
  jobs.AwaitAnswers(kAnswers);
  for (size_t node = 2; node < nodes_.size(); ++node) nodes_.Kill(node);
  jobs.AwaitAnswers(kAnswers);
  for (size_t node = 0; node < nodes_.size(); ++node) nodes_.Start(node);
  jobs.AwaitAnswers(kAnswers);
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
    Jobs jobs(addresses_);
    jobs.AwaitAnswers(kAnswers);
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
