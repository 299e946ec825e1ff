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

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/checked_answers.h"
#include "tests/integration/haproxy.h"
#include "tests/integration/http2_flood.h"
#include "tests/integration/rpc.h"
#include "tests/support/callers.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/redis_nodes.h"

namespace stowage::chaos_test {
namespace {

using std::chrono::milliseconds;
using testing::IsEmpty;

// As a job has it in whose language there is no client of ours.
std::shared_ptr<v1::Scheduler::Stub> StubOf(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(ReadFile(STOWAGE_ROOT "/deploy/grpc/single_address.json"));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::Scheduler::NewStub(
      grpc::CreateCustomChannel("ipv4:" + address, grpc::InsecureChannelCredentials(), arguments));
}

// Ask one after the other, every fifth time something new, and compare each answer with that of
// `alone`, a server that nothing happens to.
std::vector<Callers::Ask> ComparingCallers(const std::string& address, const Remote& alone) {
  constexpr int kCallers = 6;
  std::vector<Callers::Ask> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([stub = StubOf(address), &alone](int call) {
      const v1::SolveRequest request = DistinctRequest(call % 5 == 0 ? call / 5 : call % 7);
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kPatience);
      v1::SolveResponse response;
      const grpc::Status status = stub->Solve(&context, request, &response);
      v1::SolveResponse right;
      EXPECT_TRUE(alone.Solve(request, &right).ok());
      if (!status.ok()) return absl::UnknownError(Text(status));
      return response.schedule().SerializeAsString() == right.schedule().SerializeAsString()
                 ? absl::OkStatus()
                 : absl::UnknownError(response.ShortDebugString());
    });
  }
  return callers;
}

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
  static constexpr int kCalls = 10;  // of each caller, between two faults

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
  const ServerProcess undisturbed({"--client-rate", "0"});
  const Remote alone(undisturbed.address());
  Callers callers(ComparingCallers(haproxy_->address(), alone));
  callers.AwaitCalls(kCalls);
  {
    const Attack attack(haproxy_->address());
    size_t server = 0;
    for (const int signal : {SIGTERM, SIGKILL, SIGTERM}) {
      Reload();
      redis_.Kill(0);
      Replace(server++, signal);
      callers.AwaitCalls(kCalls);
      redis_.Start(0);
      callers.AwaitCalls(kCalls);
    }
  }
  callers.AwaitCalls(kCalls);
  EXPECT_THAT(callers.Stop(), IsEmpty());
}

}  // namespace
}  // namespace stowage::chaos_test
