// Floods that gRPC has no guard against: the server cuts them off, stays small and serves others;
// clients that use much of HTTP/2 as it is meant are never cut off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/haproxy.h"
#include "tests/integration/http2_flood.h"
#include "tests/integration/metrics.h"
#include "tests/integration/raw_client.h"
#include "tests/integration/rpc.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Each;

constexpr size_t kNoEnd = ~size_t{0};
constexpr int64_t kMaxMoreKibibytes = 300 << 10;

double CutOff(const ServerProcess& server) {
  double all = 0;
  for (const char* reason : {"no_calls", "control", "resets"}) {
    all += MetricOf(server,
                    absl::StrCat("stowage_connections_cut_off_total{reason=\"", reason, "\"}"));
  }
  return all;
}

// A connection is closed before that is counted.
bool Becomes(const std::function<double()>& count, double least) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!(count() >= least)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

// The most memory that it has had; sanitizers have reasons of their own.
int64_t MostKibibytes(const ServerProcess& server) {
  return ServerIsSanitized() ? 0 : OfProcess(server, "VmHWM");
}

// Asks for a cached answer, one after the other, until it is stopped.
class HonestClient {
 public:
  explicit HonestClient(const std::string& address) : remote_(address) {
    request_.mutable_options()->set_use_cache(true);
    Ask();
    thread_ = std::thread([this] {
      while (!stop_) Ask();
    });
  }
  ~HonestClient() { Stop(); }
  // What failed.
  std::vector<std::string> Stop() {
    stop_ = true;
    if (!thread_.joinable()) return failures_;
    thread_.join();
    std::cout << "longest wait " << longest_seconds_ << " s" << std::endl;
    return failures_;
  }

 private:
  void Ask() {
    const auto begin = std::chrono::steady_clock::now();
    v1::SolveResponse response;
    const grpc::Status status = remote_.Solve(request_, &response);
    if (!status.ok()) failures_.push_back(Text(status));
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    longest_seconds_ = std::max(longest_seconds_, waited.count());
  }

  const Remote remote_;
  v1::SolveRequest request_ = SmallSolveRequest();
  std::vector<std::string> failures_;  // the thread's until it has ended
  double longest_seconds_ = 0;         // likewise
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class Floods : public testing::TestWithParam<Flood> {};

// Over four connections of another host than the honest client's.
std::vector<bool> FourFloods(Flood flood, const std::string& address, size_t max_bytes) {
  std::vector<std::future<bool>> floods;
  for (int i = 0; i < 4; ++i) {
    floods.push_back(std::async(std::launch::async, [&] {
      return SendFlood(flood, address, "127.0.0.2", max_bytes, kPatience);
    }));
  }
  std::vector<bool> closed;
  for (std::future<bool>& each : floods) closed.push_back(each.get());
  return closed;
}

TEST_P(Floods, AreCutOffWhileOthersAreServed) {
  ServerProcess server({"--client-rate", "0"});
  HonestClient honest(server.address());
  const int64_t before = MostKibibytes(server);
  EXPECT_THAT(FourFloods(GetParam(), server.address(), kNoEnd), Each(true));
  EXPECT_THAT(honest.Stop(), testing::IsEmpty());
  EXPECT_TRUE(Becomes([&] { return CutOff(server); }, 1));
  EXPECT_LE(MostKibibytes(server), before + kMaxMoreKibibytes);
  EXPECT_NE(server.WaitForLogLine({"event=connection_cut_off", "peer=ipv4:127.0.0.2:"}), "");

  EXPECT_TRUE(RawSocket(server.address(), "127.0.0.2").ClosedWithin(kPatience));
  constexpr const char* kBarred = "stowage_connections_refused_total{reason=\"barred\"}";
  EXPECT_TRUE(Becomes([&] { return MetricOf(server, kBarred); }, 1));
  EXPECT_TRUE(Remote(server.address()).Answers());
}

// HAProxy with deploy/haproxy/haproxy.cfg; where it ends the flood is its own affair.
TEST_P(Floods, BehindHaproxyOthersAreServed) {
  ServerProcess server({"--trusted-proxy", "127.0.0.1", "--client-rate", "0"});
  Haproxy haproxy({&server});
  const std::string& address = haproxy.address();
  HonestClient honest(address);
  const int64_t before = MostKibibytes(server);
  constexpr size_t kMuch = 8 << 20;
  FourFloods(GetParam(), address, kMuch);
  EXPECT_THAT(honest.Stop(), testing::IsEmpty()) << haproxy.Log();
  EXPECT_LE(MostKibibytes(server), before + kMaxMoreKibibytes);
  EXPECT_TRUE(Remote(address).Answers());
}

INSTANTIATE_TEST_SUITE_P(Http2, Floods,
                         testing::Values(Flood::kResets, Flood::kContinuations, Flood::kLongHeader,
                                         Flood::kPings, Flood::kSettings, Flood::kEmptyData),
                         testing::PrintToStringParamName());

// Two connections of each of sixteen hosts, all at once.
TEST(Resets, OfManyHostsAreCutOffWhileOthersAreServed) {
  constexpr int kHosts = 16;
  ServerProcess server({"--client-rate", "0"});
  HonestClient honest(server.address());
  const int64_t before = MostKibibytes(server);
  std::vector<std::future<bool>> floods;
  for (int i = 0; i < 2 * kHosts; ++i) {
    floods.push_back(std::async(std::launch::async, [&server, i] {
      return SendFlood(Flood::kResets, server.address(), absl::StrCat("127.0.0.", 2 + i / 2),
                       kNoEnd, kPatience);
    }));
  }
  for (std::future<bool>& each : floods) EXPECT_TRUE(each.get());
  EXPECT_THAT(honest.Stop(), testing::IsEmpty());
  EXPECT_TRUE(Becomes([&] { return CutOff(server); }, kHosts));
  EXPECT_LE(MostKibibytes(server), before + kMaxMoreKibibytes);
  EXPECT_TRUE(Remote(server.address()).Answers()) << "also over a new connection";
}

// 36,000 calls, none of which has a request; 20 KB each.
TEST(HeldStreams, OfManyConnectionsAreCutOffWhileOthersAreServed) {
  constexpr int kHosts = 4;
  constexpr int kConnectionsOfHost = 10;
  constexpr int kCalls = 900;
  constexpr size_t kMetadataBytes = 7000;
  ServerProcess server({"--client-rate", "0"});
  HonestClient honest(server.address());
  const int64_t before = MostKibibytes(server);
  {
    std::vector<std::future<std::vector<RawSocket>>> hosts;
    for (int host = 0; host < kHosts; ++host) {
      hosts.push_back(std::async(std::launch::async, [&server, host] {
        std::vector<RawSocket> sockets;
        for (int i = 0; i < kConnectionsOfHost; ++i) {
          sockets.push_back(HoldCalls(server.address(), absl::StrCat("127.0.0.", 2 + host), kCalls,
                                      kMetadataBytes));
        }
        return sockets;
      }));
    }
    std::vector<std::vector<RawSocket>> held;
    for (auto& each : hosts) held.push_back(each.get());
    EXPECT_NE(server.WaitForLogLine({"event=connection_cut_off", "reason=resets"}), "");
  }
  EXPECT_THAT(honest.Stop(), testing::IsEmpty());
  EXPECT_TRUE(Remote(server.address()).Answers());
  EXPECT_LE(MostKibibytes(server), before + kMaxMoreKibibytes);
}

TEST(OpenCalls, HaveARateOfTheirOwn) {
  ServerProcess server;
  const Remote remote(server.address());
  const auto many = [](auto call) {
    std::vector<std::future<StatusCode>> calls;
    for (int i = 0; i < 300; ++i) calls.push_back(std::async(std::launch::async, call));
    int refused = 0;
    for (std::future<StatusCode>& each : calls) {
      refused += each.get() == StatusCode::RESOURCE_EXHAUSTED ? 1 : 0;
    }
    return refused;
  };
  EXPECT_EQ(remote.SendRaw("/no.such.Service/Method", "").error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(remote.Health(), HealthState::SERVING);
  EXPECT_GE(many([&] { return remote.SendRaw("/grpc.health.v1.Health/Check", "").error_code(); }),
            1);
  EXPECT_GE(many([&] { return remote.SendRaw("/no.such.Service/Method", "").error_code(); }), 1);
  EXPECT_TRUE(remote.Answers()) << "it is not the jobs' rate";
}

// One look at all of them, in the order of the tests above.
class LegitimateClients : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(CutOff(server_), 0);
    EXPECT_TRUE(remote_.Answers());
  }

  ServerProcess server_{{"--client-rate", "0", "--threads", "1", "--short-threads", "0"}};
  const Remote remote_{server_.address()};
};

TEST_F(LegitimateClients, MaySendTheLargestMessagesAtOnceAndOneAfterTheOther) {
  const std::string large(15 << 20, '\n');  // no message, which is known once it has been read
  std::vector<std::future<void>> clients;
  for (int client = 0; client < 3; ++client) {
    clients.push_back(std::async(std::launch::async, [&] {
      const Remote remote(server_.address());
      for (int i = 0; i < 5; ++i) {
        const grpc::Status status = remote.SendRaw("Solve", large);
        EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << Text(status);
      }
    }));
  }
}

TEST_F(LegitimateClients, MayHaveManyCallsOnAConnectionAndCancelThem) {
  std::vector<std::unique_ptr<PendingSolve>> solves;
  for (int i = 0; i < 300; ++i) {
    solves.push_back(std::make_unique<PendingSolve>(remote_, LongSolveRequest()));
  }
  WaitForMetric(server_, "stowage_solves_running", 1);
  for (const auto& solve : solves) solve->Cancel();
  for (const auto& solve : solves) (void)solve->Wait();
}

// Whose requests arrive slowly, on connections of their own and on one.
TEST_F(LegitimateClients, MayHaveManyRequestsOnTheirWay) {
  constexpr int kConnections = 300;
  constexpr uint32_t kCallsOfOne = 128;  // the server allows no more
  const std::string part = GrpcMessage("x", 1000);
  std::vector<std::unique_ptr<RawGrpc>> clients;
  for (int i = 0; i < kConnections; ++i) {
    clients.push_back(std::make_unique<RawGrpc>(server_.address()));
    for (const uint32_t stream : {1, 3}) {
      clients.back()->Begin(stream, "Solve");
      clients.back()->Send(stream, part, kPatience);
    }
  }
  RawGrpc one(server_.address());
  for (uint32_t call = 0; call < kCallsOfOne; ++call) {
    one.Begin(2 * call + 1, "Solve");
    one.Send(2 * call + 1, part, kPatience);
  }
  EXPECT_TRUE(one.Ping(kPatience));
  for (const auto& client : clients) EXPECT_TRUE(client->Ping(kPatience));
}

TEST_F(LegitimateClients, MayPing) {
  RawGrpc client(server_.address());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(client.Ping(kPatience)) << i;
}

TEST_F(LegitimateClients, MayAskForCachedAnswersAsFastAsTheyCome) {
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_options()->set_use_cache(true);
  std::vector<std::future<void>> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.push_back(std::async(std::launch::async, [&] {
      v1::SolveResponse response;
      for (int i = 0; i < 2000; ++i) EXPECT_TRUE(remote_.Solve(request, &response).ok());
    }));
  }
}

}  // namespace
}  // namespace stowage
