// Three servers behind HAProxy that share a Redis, under faults that come at once: servers are
// killed and replaced one after the other while Redis is down, options are read again and other
// hosts flood. Callers that have nothing but gRPC and a service config of deploy/grpc notice none
// of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "solver/base/mutex.h"
#include "tests/integration/checked_answers.h"
#include "tests/integration/haproxy.h"
#include "tests/integration/http2_flood.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/redis_nodes.h"

namespace stowage::chaos_test {
namespace {

using std::chrono::milliseconds;
using testing::IsEmpty;
using Clock = std::chrono::steady_clock;

// As a job has it in whose language there is no client of ours.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(ReadFile(STOWAGE_ROOT "/deploy/grpc/single_address.json"));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("ipv4:" + address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// Ask one after the other, every fifth time something new, and compare each answer with that of a
// server of their own, which nothing happens to.
class Callers {
 public:
  explicit Callers(const std::string& address) {
    for (int caller = 0; caller < kCallers; ++caller) {
      threads_.emplace_back([this, channel = ChannelTo(address)] { Ask(channel); });
    }
  }
  ~Callers() { (void)Stop(); }

  // Until so many more answers have come.
  void AwaitAnswers(int more) const {
    const auto deadline = Clock::now() + kPatience;
    const int enough = answers_ + more;
    while (answers_ < enough) {
      ASSERT_LT(Clock::now(), deadline);
      std::this_thread::sleep_for(milliseconds(5));
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
  static constexpr int kCallers = 6;
  static constexpr int kKnown = 7;

  void Ask(const std::shared_ptr<grpc::Channel>& channel) {
    const auto stub = v1::Scheduler::NewStub(channel);
    while (!stop_) {
      const int call = calls_++;
      const v1::SolveRequest request = DistinctRequest(call % 5 == 0 ? call / 5 : call % kKnown);
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kPatience);
      v1::SolveResponse response;
      const grpc::Status status = stub->Solve(&context, request, &response);
      v1::SolveResponse right;
      EXPECT_TRUE(alone_.Solve(request, &right).ok());
      ++answers_;
      if (!status.ok()) {
        Fail(Text(status));
      } else if (response.schedule().SerializeAsString() != right.schedule().SerializeAsString()) {
        Fail(absl::StrCat("another answer: ", response.ShortDebugString()));
      }
    }
  }
  void Fail(const std::string& how) {
    MutexLock lock(mutex_);
    failures_.push_back(how);
  }

  const ServerProcess server_{{"--client-rate", "0"}};
  const Remote alone_{server_.address()};
  std::atomic<int> calls_ = 0;
  std::atomic<int> answers_ = 0;
  std::atomic<bool> stop_ = false;
  Mutex mutex_;
  std::vector<std::string> failures_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // last: they use all of the above
};

// Resets streams and holds some open until it is destroyed, each time from another host.
class Attack {
 public:
  explicit Attack(const std::string& address)
      : thread_([this, address] {
          for (size_t turn = 0; !stop_; ++turn) Strike(address, turn);
        }) {}
  ~Attack() {
    stop_ = true;
    thread_.join();
  }

 private:
  static void Strike(const std::string& address, size_t turn) {
    constexpr size_t kFloodBytes = 1 << 20;
    constexpr int kHeldCalls = 300;
    constexpr size_t kMetadataBytes = 7000;
    const std::string host = absl::StrCat("127.2.", turn / 250 % 250, ".", turn % 250 + 1);
    try {
      const RawSocket held = HoldCalls(address, host, kHeldCalls, kMetadataBytes);
      SendFlood(Flood::kResets, address, host, kFloodBytes, milliseconds(200));
    } catch (const std::runtime_error&) {  // HAProxy has closed it by then
    }
    std::this_thread::sleep_for(milliseconds(100));
  }

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class Chaos : public testing::Test {
 protected:
  static constexpr size_t kServers = 3;
  static constexpr int kAnswers = 60;  // between two faults

  void SetUp() override {
    config_ = folder_.Write("config", Options());
    // Addresses of their own: ports that other tests get do not collide with those to come back to.
    for (const char* listen : {"127.0.0.31:0", "127.0.0.32:0", "127.0.0.33:0"}) {
      servers_.push_back(Start(listen, listen));
    }
    haproxy_ = std::make_unique<Haproxy>(
        std::vector<const ServerProcess*>{servers_[0].get(), servers_[1].get(), servers_[2].get()});
    for (const char* name : kNames) haproxy_->WaitUntilUp(name);
  }

  // Returns once it is back where it was.
  void Replace(size_t server, int signal) {
    std::unique_ptr<ServerProcess>& its = servers_[server];
    const std::string address = its->address();
    const std::string http = its->http_address();
    its->Signal(signal);
    if (signal == SIGTERM) {
      // It answers until it is told so again, so that HAProxy has the time to notice.
      EXPECT_NE(its->WaitForLogLine({"event=lame_duck"}), "");
      haproxy_->WaitUntilDown(kNames[server]);
      its->Signal(SIGTERM);
    }
    EXPECT_TRUE(its->WaitForExit().has_value());
    its = Start(address, http);
    haproxy_->WaitUntilUp(kNames[server]);
  }

  // Returns once all servers have other options.
  void Reload() {
    ++client_limit_;
    folder_.Write("config", Options());
    const std::string changed = absl::StrCat("-> ", client_limit_);
    for (const auto& server : servers_) server->Signal(SIGHUP);
    for (const auto& server : servers_) {
      EXPECT_NE(server->WaitForLogLine({"event=reloaded", changed}), "") << server->Log();
    }
  }

  static constexpr const char* kNames[] = {"one", "two", "three"};  // as HAProxy has them
  RedisNodes redis_{1};
  std::unique_ptr<Haproxy> haproxy_;

 private:
  std::string Options() const { return absl::StrCat("client-limit = ", client_limit_, "\n"); }

  std::unique_ptr<ServerProcess> Start(const std::string& listen, const std::string& http) const {
    const std::vector<std::string> flags = {
        "--http",   http,    "--client-rate", "0",     "--shared-cache",  redis_.Url(),
        "--config", config_, "--lame-duck",   "1000s", "--trusted-proxy", "127.0.0.1"};
    return std::make_unique<ServerProcess>(flags, listen);
  }

  int client_limit_ = 64;
  const TempFolder folder_;
  std::string config_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
};

TEST_F(Chaos, FailsNoCall) {
  Callers callers(haproxy_->address());
  callers.AwaitAnswers(kAnswers);
  {
    const Attack attack(haproxy_->address());
    size_t server = 0;
    for (const int signal : {SIGTERM, SIGKILL, SIGTERM}) {
      Reload();
      redis_.Kill(0);
      Replace(server++, signal);
      callers.AwaitAnswers(kAnswers);
      redis_.Start(0);
      callers.AwaitAnswers(kAnswers);
    }
  }
  callers.AwaitAnswers(kAnswers);
  EXPECT_THAT(callers.Stop(), IsEmpty());
}

}  // namespace
}  // namespace stowage::chaos_test
