// What one client may take of a server that it shares with others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <latch>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "solver/base/mutex.h"
#include "tests/integration/metrics.h"
#include "tests/integration/raw_client.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using grpc::StatusCode;
using std::chrono::system_clock;
using testing::HasSubstr;

// A small solve with some metadata.
grpc::Status Ask(const Remote& remote, const std::string& key, const std::string& value) {
  grpc::ClientContext context;
  context.set_deadline(system_clock::now() + kPatience);
  if (!key.empty()) context.AddMetadata(key, value);
  v1::SolveResponse response;
  return remote.Solve(SmallSolveRequest(), &response, &context);
}

double CallsOf(const ServerProcess& server, const std::string& client) {
  return MetricOf(server, absl::StrCat("stowage_client_calls_total{client=\"", client, "\"}"));
}

TEST(Tenants, AClientIsItsTokensName) {
  const TempFolder folder;
  ServerProcess server(
      {"--token-file", folder.Write("tokens",
                                    "one token-of-one-0123456789\n"
                                    "two token-of-two-0123456789 calls=5 solves=2\n")});
  const Remote remote(server.address());
  EXPECT_EQ(Text(Ask(remote, "authorization", "Bearer token-of-one-0123456789")), "OK");
  EXPECT_EQ(Text(Ask(remote, "authorization", "Bearer token-of-two-0123456789")), "OK");
  EXPECT_EQ(Ask(remote, "authorization", "Bearer nobodys").error_code(),
            StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CallsOf(server, "one"), 1);
  EXPECT_EQ(CallsOf(server, "two"), 1);
  EXPECT_EQ(CallsOf(server, "127.0.0.1"), 1);
  EXPECT_NE(server.WaitForLogLine({"event=call", "client=two", "code=OK"}), "");
}

TEST(Tenants, BehindATrustedProxyAClientIsTheHostThatItNames) {
  ServerProcess server({"--trusted-proxy", "127.0.0.0/8,10.0.0.0/8"});
  const Remote remote(server.address());
  EXPECT_EQ(Text(Ask(remote, "x-forwarded-for", "192.0.2.7")), "OK");
  EXPECT_EQ(Text(Ask(remote, "x-forwarded-for", "203.0.113.1, 192.0.2.8, 10.1.1.1")), "OK");
  EXPECT_EQ(Text(Ask(remote, "", "")), "OK");
  EXPECT_EQ(CallsOf(server, "192.0.2.7"), 1);
  EXPECT_EQ(CallsOf(server, "192.0.2.8"), 1);
  EXPECT_EQ(CallsOf(server, "127.0.0.1"), 1);
}

// A real one, which connects from another address than its clients.
TEST(Tenants, BehindHaproxyAForgedHeaderMeansNothing) {
  const TempFolder folder;
  ServerProcess server({"--trusted-proxy", "127.0.0.9"});
  const std::string address = "127.0.0.1:" + FreePort();
  BackgroundProgram haproxy(
      {"/usr/sbin/haproxy", "-db", "-f",
       folder.Write("haproxy.cfg",
                    absl::StrCat("defaults\n"
                                 "  mode http\n"
                                 "  timeout connect 10s\n"
                                 "  timeout client 2m\n"
                                 "  timeout server 2m\n"
                                 "  option forwardfor\n"
                                 "frontend callers\n"
                                 "  bind ",
                                 address,
                                 " proto h2\n"
                                 "  default_backend servers\n"
                                 "backend servers\n"
                                 "  server one ",
                                 server.address(), " proto h2 source 127.0.0.9\n"))});
  WaitUntilListening(address);
  const Remote remote(address);
  EXPECT_EQ(Text(Ask(remote, "x-forwarded-for", "192.0.2.7")), "OK") << haproxy.Log();
  EXPECT_NE(server.WaitForLogLine({"event=call", "peer=ipv4:127.0.0.9", "client=127.0.0.1"}), "");
  EXPECT_EQ(CallsOf(server, "127.0.0.1"), 1);
}

TEST(Tenants, WithoutATrustedProxyTheHeaderMeansNothing) {
  ServerProcess server;
  EXPECT_EQ(Text(Ask(Remote(server.address()), "x-forwarded-for", "192.0.2.7")), "OK");
  EXPECT_EQ(CallsOf(server, "127.0.0.1"), 1);
}

// Behind a proxy thousands of hosts share one address; each has its own place in the queue.
TEST(Tenants, TheLimitOfSolvesIsEachClientsOwn) {
  ServerProcess server({"--trusted-proxy", "127.0.0.1", "--client-limit", "1", "--threads", "1",
                        "--short-threads", "0", "--solve-turn", "3600s"});
  const Remote remote(server.address());
  grpc::ClientContext context;
  context.AddMetadata("x-forwarded-for", "192.0.2.7");
  v1::SolveResponse response;
  std::thread greedy([&] { (void)remote.Solve(LongSolveRequest(), &response, &context); });
  WaitForMetric(server, "stowage_solves_running", 1);
  const grpc::Status refused = Ask(remote, "x-forwarded-for", "192.0.2.7");
  EXPECT_EQ(refused.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("this client has 1"));
  std::thread other([&] { EXPECT_EQ(Text(Ask(remote, "x-forwarded-for", "192.0.2.8")), "OK"); });
  WaitForMetric(server, "stowage_solves_waiting", 1);
  context.TryCancel();
  greedy.join();
  other.join();
}

TEST(Tenants, ALongSolveKeepsOthersWaitingForItsTurnAlone) {
  ServerProcess server({"--trusted-proxy", "127.0.0.1", "--threads", "1", "--short-threads", "0",
                        "--max-solve-time", "3600s"});
  const Remote remote(server.address());
  grpc::ClientContext context;
  context.AddMetadata("x-forwarded-for", "192.0.2.7");
  v1::SolveResponse response;
  std::atomic<bool> greedy_ended = false;
  std::thread greedy([&] {
    (void)remote.Solve(LongSolveRequest(), &response, &context);
    greedy_ended = true;
  });
  WaitForMetric(server, "stowage_solves_running", 1);
  for (const char* host : {"192.0.2.8", "192.0.2.9"}) {
    EXPECT_EQ(Text(Ask(remote, "x-forwarded-for", host)), "OK");
  }
  EXPECT_FALSE(greedy_ended);
  context.TryCancel();
  greedy.join();
}

TEST(Tenants, CallsAboveAClientsRateAreRefusedLateAndCounted) {
  const TempFolder folder;
  ServerProcess server({"--token-file", folder.Write("tokens",
                                                     "slow token-of-slow-0123456789 calls=1\n"
                                                     "fast token-of-fast-0123456789\n")});
  const Remote remote(server.address());
  int refusals = 0;
  auto begin = system_clock::now();
  for (int i = 0; i < 10 && refusals == 0; ++i) {
    begin = system_clock::now();
    const grpc::Status status = Ask(remote, "authorization", "Bearer token-of-slow-0123456789");
    if (status.ok()) continue;
    ++refusals;
    EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(), HasSubstr("client slow sends more calls than it may"));
    EXPECT_TRUE(RetryAdviceOf(status).has_value());
  }
  EXPECT_EQ(refusals, 1);
  EXPECT_NE(server.WaitForLogLine({"event=call", "client=slow", "reason=client_rate"}), "");
  EXPECT_GE(system_clock::now() - begin, std::chrono::milliseconds(900));
  EXPECT_EQ(MetricOf(server, "stowage_rejected_total{reason=\"client_rate\"}"), 1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Text(Ask(remote, "authorization", "Bearer token-of-fast-0123456789")), "OK");
  }
}

TEST(Tenants, ALargeRequestCountsAsManyCalls) {
  const ServerProcess server({"--client-rate", "10"});
  const Remote remote(server.address());
  v1::SolveRequest bad = LongSolveRequest();
  bad.set_solver("rotter");
  v1::SolveResponse response;
  EXPECT_EQ(remote.Solve(bad, &response).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(remote.Solve(SmallSolveRequest(), &response).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
}

// 2 KB: without their number they would be one call, and the second one within the burst.
TEST(Tenants, ManyEmptyStagesCountAsManyCalls) {
  const ServerProcess server({"--client-rate", "1"});
  const Remote remote(server.address());
  v1::SolveRequest request;
  for (int i = 0; i < 1000; ++i) request.mutable_chain()->add_stages();
  request.set_solver("rotter");
  v1::SolveResponse response;
  EXPECT_EQ(remote.Solve(request, &response).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(remote.Solve(request, &response).error_code(), StatusCode::RESOURCE_EXHAUSTED);
}

TEST(Tenants, OperationsToSimulateCountAsCalls) {
  const ServerProcess server({"--client-rate", "10"});
  const Remote remote(server.address());
  v1::SimulateRequest simulate;
  *simulate.mutable_chain() = SmallSolveRequest().chain();
  *simulate.mutable_platform() = SmallSolveRequest().platform();
  for (int i = 0; i < 10'000; ++i) {
    v1::Operation& operation = *simulate.mutable_schedule()->add_operations();
    operation.set_kind(v1::Operation::FORWARD_SAVE);
    operation.set_stage(1);
  }
  v1::SimulateResponse simulated;
  EXPECT_EQ(remote.Simulate(simulate, &simulated).error_code(), StatusCode::INVALID_ARGUMENT);
  simulate.mutable_schedule()->clear_operations();
  EXPECT_EQ(remote.Simulate(simulate, &simulated).error_code(), StatusCode::RESOURCE_EXHAUSTED);
}

// Hundreds of ranks of a job that ask the same pass; what each of them holds is little.
TEST(Tenants, EqualRequestsInFlightTakeLittleMemory) {
  ServerProcess server({"--client-rate", "0", "--threads", "1"});
  const auto stub = v1::Scheduler::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  v1::SolveRequest request = LongSolveRequest(2000);
  request.mutable_options()->set_use_cache(true);
  struct Pending {
    grpc::ClientContext context;
    v1::SolveResponse response;
  };
  std::vector<std::unique_ptr<Pending>> calls;
  std::atomic<int> ended{0};
  // The only solver thread is busy, so that the others wait however fast they are solved.
  const v1::SolveRequest longest = LongSolveRequest();
  Pending busy;
  std::atomic<bool> busy_ended{false};
  stub->async()->Solve(&busy.context, &longest, &busy.response,
                       [&busy_ended](const grpc::Status&) { busy_ended = true; });
  WaitForMetric(server, "stowage_solves_running", 1);
  const double before = MetricOf(server, "process_resident_memory_bytes");
  constexpr int kCalls = 120;
  for (int i = 0; i < kCalls; ++i) {
    Pending& call = *calls.emplace_back(std::make_unique<Pending>());
    stub->async()->Solve(&call.context, &request, &call.response,
                         [&ended](const grpc::Status&) { ++ended; });
  }
  WaitForMetric(server,
                "grpc_server_started_total{grpc_method=\"Solve\","
                "grpc_service=\"stowage.v1.Scheduler\",grpc_type=\"unary\"}",
                kCalls + 1);
  EXPECT_EQ(ended, 0);
  const double bytes = MetricOf(server, "process_resident_memory_bytes") - before;
  // AddressSanitizer has shadow memory for every byte, and holds freed memory back.
  const double factor = ServerIsSanitized() ? 4 : 1;
  EXPECT_LT(bytes / kCalls,
            factor * (4.0 * static_cast<double>(request.ByteSizeLong()) + (64 << 10)));
  busy.context.TryCancel();
  for (const auto& call : calls) call->context.TryCancel();
  while (ended < kCalls || !busy_ended) std::this_thread::yield();
}

// Calls that send the same bytes at the same time, a hundred over each connection. Of the answers,
// only whether they differ in more than their origin is kept.
class EqualCallers {
 public:
  EqualCallers(const std::string& address, const v1::SolveRequest& request, int count)
      : left_(count), calls_(static_cast<size_t>(count)) {
    constexpr size_t kOfAConnection = 100;
    const grpc::Slice slice(request.SerializeAsString());
    const grpc::ByteBuffer bytes(&slice, 1);
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (i % kOfAConnection == 0) connections_.emplace_back(Remote(address).channel());
      Call& call = calls_[i];
      call.context.set_deadline(system_clock::now() + kPatience);
      connections_.back().UnaryCall(
          &call.context, "/stowage.v1.Scheduler/Solve", {}, &bytes, &call.response,
          [this, &call](const grpc::Status& status) { Ended(status, &call.response); });
    }
  }
  ~EqualCallers() {
    for (Call& call : calls_) call.context.TryCancel();
    left_.wait();
  }

  bool have_ended() const { return left_.try_wait(); }
  // What failed, and how many did; "" where none did.
  std::string Failures() {
    left_.wait();
    const MutexLock lock(mutex_);
    return failed_ == 0 ? "" : absl::StrCat(failed_, " failed, the first with ", failure_);
  }
  // As they were sent, without their origin, each once.
  std::set<std::string> Answers() {
    left_.wait();
    const MutexLock lock(mutex_);
    return answers_;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer response;
  };

  void Ended(const grpc::Status& status, grpc::ByteBuffer* bytes) {
    v1::SolveResponse response;
    grpc::ProtoBufferReader reader(bytes);
    const bool is_answer = status.ok() && response.ParseFromZeroCopyStream(&reader);
    response.clear_origin();
    {
      const MutexLock lock(mutex_);
      if (is_answer) {
        answers_.insert(response.SerializeAsString());
      } else if (failed_++ == 0) {
        failure_ = Text(status);
      }
    }
    bytes->Clear();
    left_.count_down();
  }

  std::latch left_;
  Mutex mutex_;
  int failed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string failure_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<grpc::GenericStub> connections_;
  std::vector<Call> calls_;
};

// A request of 20 KB whose chain takes a hundred times as much once it is read, and whose answer
// takes ten times as much.
v1::SolveRequest ManyEmptyStages() {
  v1::SolveRequest request;
  for (int i = 0; i < 10'000; ++i) request.mutable_chain()->add_stages();
  request.mutable_platform()->set_memory_bytes(1 << 20);
  return request;
}

class Joiners : public testing::Test {
 protected:
  // So many unary calls of Solve have begun, or have been answered.
  void WaitForCalls(const char* which, int count) const {
    WaitForMetric(server_,
                  absl::StrCat("grpc_server_", which, "grpc_method=\"Solve\",",
                               "grpc_service=\"stowage.v1.Scheduler\",", "grpc_type=\"unary\"}"),
                  count);
  }
  // The most memory that it has had; sanitizers have reasons of their own.
  int64_t MostMebibytes() const {
    return ServerIsSanitized() ? 0 : OfProcess(server_, "VmHWM") >> 10;
  }

  ServerProcess server_{{"--client-rate", "0", "--threads", "1", "--short-threads", "0"}};
  const Remote remote_{server_.address()};
};

TEST_F(Joiners, TakeNeitherAChainNorAnAnswerEach) {
  constexpr int kCalls = 2000;
  constexpr int kMaxMoreMebibytes = 300;
  PendingSolve busy(remote_, LongSolveRequest());  // on the only solver thread
  WaitForMetric(server_, "stowage_solves_running", 1);
  const int64_t before = MostMebibytes();
  EqualCallers callers(server_.address(), ManyEmptyStages(), kCalls);
  WaitForCalls("started_total{", kCalls + 1);
  EXPECT_FALSE(callers.have_ended());
  busy.Cancel();
  EXPECT_EQ(callers.Failures(), "");
  EXPECT_EQ(callers.Answers().size(), 1);
  EXPECT_LE(MostMebibytes(), before + kMaxMoreMebibytes);
}

// Each answer takes 190 KB; of one client 32 MiB may wait to be read.
TEST_F(Joiners, ThatReadNothingHoldOneAnswer) {
  constexpr int kCalls = 400;
  PendingSolve busy(remote_, LongSolveRequest());
  WaitForMetric(server_, "stowage_solves_running", 1);
  constexpr uint32_t kNoWindow = 0;
  constexpr uint32_t kOfAConnection = 100;
  std::deque<RawGrpc> callers;
  const std::string bytes = ManyEmptyStages().SerializeAsString();
  const std::string message = GrpcMessage(bytes, bytes.size());
  for (uint32_t i = 0; i < kCalls; ++i) {
    if (i % kOfAConnection == 0) callers.emplace_back(server_.address(), kNoWindow);
    const uint32_t stream = 2 * (i % kOfAConnection) + 1;
    callers.back().Begin(stream, "Solve");
    ASSERT_EQ(callers.back().Send(stream, message, kPatience), message.size());
    callers.back().End(stream);
  }
  WaitForCalls("started_total{", kCalls + 1);
  busy.Cancel();
  WaitForCalls("handled_total{grpc_code=\"OK\",", kCalls);
  EXPECT_EQ(MetricOf(server_, "stowage_rejected_total{reason=\"unread\"}"), 0);
}

TEST(Tenants, AFloodOfBadCallsWritesFewLines) {
  ServerProcess server({"--client-log-rate", "1"});
  const Remote remote(server.address());
  v1::SolveRequest bad = SmallSolveRequest();
  bad.set_solver("rotter");
  v1::SolveResponse response;
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(remote.Solve(bad, &response).error_code(), StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_GT(MetricOf(server, "stowage_log_lines_suppressed_total"), 100);
  EXPECT_NE(server.WaitForLogLine({"event=lines_suppressed", "client=127.0.0.1"}), "");
  EXPECT_EQ(MetricOf(server, "stowage_client_refused_total{client=\"127.0.0.1\"}"), 200);
}

TEST(Tenants, ALimitThatIsNoneIsRefusedWithItsLine) {
  const TempFolder folder;
  for (const char* limit : {"calls=0", "calls=", "solves=x", "lines=3", "calls=1 calls=2"}) {
    const std::string file =
        folder.Write("tokens", absl::StrCat("\none token-of-one-0123456789 ", limit));
    const ProgramResult result = RunProgram({Program("stowage-server"), "--listen", "127.0.0.1:0",
                                             "--http", "none", "--token-file", file});
    EXPECT_EQ(result.exit_code, 1) << limit;
    EXPECT_THAT(result.err, HasSubstr("tokens:2: ")) << limit;
  }
}

// An honest client's small requests while another one's long solves wait and run.
TEST(Tenants, ShortSolvesDoNotWaitForLongOnes) {
  ServerProcess server({"--threads", "2", "--max-solve-time", "30s"});
  const Remote remote(server.address());
  std::vector<std::unique_ptr<PendingSolve>> flood;
  for (int i = 0; i < 8; ++i) {
    v1::SolveRequest request = LongSolveRequest();
    request.mutable_chain()->set_input_bytes(i);
    flood.push_back(std::make_unique<PendingSolve>(remote, request));
  }
  WaitForMetric(server, "stowage_solves_running", 2);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(remote.Answers());
  for (const auto& solve : flood) EXPECT_FALSE(solve->ended());
  EXPECT_GE(MetricOf(server, "stowage_solves_waiting"), 1);
}

TEST(Tenants, ALongSolveEndsAtTheLimitWithItsBestSchedule) {
  ServerProcess server({"--max-solve-time", "0.5s"});
  const Remote remote(server.address());
  v1::SolveResponse response;
  EXPECT_EQ(Text(remote.Solve(LongSolveRequest(10'000, int64_t{500} << 30), &response)), "OK");
  EXPECT_EQ(response.outcome(), v1::FEASIBLE);
  EXPECT_EQ(response.limit(), v1::TIME);
  const grpc::Status none = remote.Solve(LongSolveRequest(), &response);
  EXPECT_EQ(none.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(none.error_message(), HasSubstr("0.5 s, the longest time"));
}

}  // namespace
}  // namespace stowage
