// What broken and hostile clients do to a server: it stays small, serves everybody else at once and
// has everything back when they are gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "httplib.h"
#include "proto/convert/chain_message.h"
#include "solver/bounds/memory_range.h"
#include "tests/integration/metrics.h"
#include "tests/integration/raw_client.h"
#include "tests/integration/rpc.h"
#include "tests/support/chains.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage::hostile_clients_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Clock = std::chrono::steady_clock;

constexpr int64_t kMiB = 1 << 20;
// AddressSanitizer holds freed memory back, and has shadow memory for every byte.
int64_t SlackBytes() { return ServerIsSanitized() ? 2048 * kMiB : 0; }
// The memory limit of all requests that are arriving: sixteen of the largest.
constexpr int64_t kQuotaMebibytes = int64_t{16} * 16;
// How long a cache hit may take on a busy machine, whatever other clients do.
constexpr seconds kPromptly{10};

// A server of its own for each test, which hundreds of solves of one host do not fill.
class HostileClients : public testing::Test {
 protected:
  // Its clients are all of one host, whose connections and calls are not limited here: it counts as
  // a proxy.
  HostileClients() : HostileClients({"--trusted-proxy", "127.0.0.1", "--client-rate", "0"}) {}
  explicit HostileClients(const std::vector<std::string>& arguments) : server_(arguments) {
    EXPECT_TRUE(remote_.Solve(cached_request_, &answer_).ok());
    files_ = OpenFiles();
  }

  int64_t ResidentBytes() const {
    const std::string status = ReadFile(absl::StrCat("/proc/", server_.pid(), "/status"));
    const size_t begin = status.find("VmRSS:") + 6;
    int64_t kibibytes = 0;
    EXPECT_TRUE(
        absl::SimpleAtoi(status.substr(begin, status.find(" kB", begin) - begin), &kibibytes));
    return kibibytes << 10;
  }
  size_t OpenFiles() const {
    const std::filesystem::directory_iterator files(absl::StrCat("/proc/", server_.pid(), "/fd"));
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  static bool Within(const std::function<bool()>& condition) {
    const Clock::time_point end = Clock::now() + kPatience;
    while (!condition()) {
      if (Clock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return true;
  }

  void ExpectAtMostResident(int64_t mebibytes) const {
    EXPECT_LE(ResidentBytes() / kMiB, mebibytes + SlackBytes() / kMiB);
  }
  // Over the connection that there was before, and over a new one.
  void ExpectOthersAreServed() const {
    const Remote newcomer(server_.address());
    for (const Remote* remote : {&remote_, &newcomer}) {
      const Clock::time_point begin = Clock::now();
      v1::SolveResponse response;
      const grpc::Status status = remote->Solve(cached_request_, &response);
      EXPECT_TRUE(status.ok()) << Text(status);
      EXPECT_EQ(response.origin().source(), v1::Origin::MEMORY_CACHE);
      EXPECT_LE(Clock::now() - begin, kPromptly);
    }
    ExpectOperatorsAreServed();
  }
  void ExpectOperatorsAreServed() const {
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(HttpGet(server_.http_address(), "/livez"), "200 ok\n");
    EXPECT_EQ(MetricOf(server_, "stowage_ready"), 1);
    EXPECT_LE(Clock::now() - begin, kPromptly);
  }
  // Files, memory and solves. Memory comes back within seconds.
  void ExpectAllIsGivenBack(int64_t mebibytes) const {
    WaitForMetric(server_, "stowage_solves_running", 0);
    WaitForMetric(server_, "stowage_requests_in_flight", 0);
    EXPECT_TRUE(Within([&] { return OpenFiles() <= files_; })) << OpenFiles() << " files";
    EXPECT_TRUE(Within([&] { return ResidentBytes() <= mebibytes * kMiB + SlackBytes(); }))
        << ResidentBytes() / kMiB << " MiB";
    ExpectOthersAreServed();
  }

  // A second or more of `auto`, at most five; two equal requests in flight are one solve.
  static v1::SolveRequest Slow() {
    v1::SolveRequest request;
    *request.mutable_chain() = Profile("preact-resnet1001-8-224");
    v1::Platform& platform = *request.mutable_platform();
    platform.set_memory_bytes(StoreAllPeakBytes(FromMessage(request.chain())) / 5);
    platform.set_offload_bytes_per_second(12e9);
    request.mutable_options()->set_time_budget_seconds(5);
    return request;
  }
  static v1::SolveRequest CachedRequest() {
    v1::SolveRequest request = SmallSolveRequest();
    request.mutable_options()->set_use_cache(true);
    return request;
  }

  ServerProcess server_;
  const Remote remote_{server_.address()};
  const v1::SolveRequest cached_request_ = CachedRequest();
  v1::SolveResponse answer_;
  size_t files_ = 0;  // that an idle server with one client has open
};

std::string Message(const google::protobuf::Message& message) {
  const std::string bytes = message.SerializeAsString();
  return GrpcMessage(bytes, bytes.size());
}

TEST_F(HostileClients, AConnectionThatBreaksInMidCallEndsItsSolve) {
  {
    RawGrpc client(server_.address());
    client.Begin(1, "Solve");
    const std::string request = Message(LongSolveRequest());
    EXPECT_EQ(client.Send(1, request, seconds(5)), request.size());
    client.End(1);
    WaitForMetric(server_, "stowage_solves_running", 1);
    ExpectOthersAreServed();
  }
  ExpectAllIsGivenBack(200);
}

TEST_F(HostileClients, AClientThatNeverReadsAStreamTakesNoMoreMemory) {
  {
    constexpr uint32_t kNoWindow = 0;
    std::vector<std::unique_ptr<RawGrpc>> clients;
    for (int i = 0; i < 50; ++i) {
      clients.push_back(std::make_unique<RawGrpc>(server_.address(), kNoWindow));
      clients.back()->Begin(1, "SolveStream");
      clients.back()->Send(1, Message(Slow()), seconds(5));
      clients.back()->End(1);
    }
    WaitForMetric(server_, "stowage_solves_running", 1);
    ExpectOthersAreServed();
    WaitForMetric(server_, "stowage_solves_running", 0);
    // All have an answer to read, and do not.
    ExpectAtMostResident(300);
    ExpectOthersAreServed();
  }
  ExpectAllIsGivenBack(200);
}

// With a server that does not limit how much a client sends, but only what waits for it.
class UnreadResponses : public HostileClients {
 protected:
  UnreadResponses()
      : HostileClients(
            {"--trusted-proxy", "127.0.0.1", "--client-rate", "0", "--client-limit", "10000"}) {}
};

TEST_F(UnreadResponses, AreLimited) {
  constexpr int kStages = 5000;
  v1::SimulateRequest request;
  *request.mutable_chain() = ToMessage(EqualChain(kStages));
  request.mutable_platform()->set_memory_bytes(1 << 20);
  const auto add = [&](v1::Operation::Kind kind, int stage) {
    v1::Operation& operation = *request.mutable_schedule()->add_operations();
    operation.set_kind(kind);
    operation.set_stage(stage);
  };
  for (int l = 1; l <= kStages + 1; ++l) add(v1::Operation::FORWARD_SAVE, l);
  for (int l = kStages + 1; l >= 1; --l) add(v1::Operation::BACKWARD, l);
  const std::string message = Message(request);
  const auto refused = [this] {
    return MetricOf(server_, "stowage_rejected_total{reason=\"unread\"}") > 0;
  };
  {
    constexpr uint32_t kNoWindow = 0;
    std::vector<std::unique_ptr<RawGrpc>> clients;
    for (int client = 0; client < 40 && !refused(); ++client) {
      clients.push_back(std::make_unique<RawGrpc>(server_.address(), kNoWindow));
      for (uint32_t stream = 1; stream < 100; stream += 2) {
        clients.back()->Begin(stream, "Simulate");
        ASSERT_EQ(clients.back()->Send(stream, message, kPatience), message.size());
        clients.back()->End(stream);
      }
    }
    EXPECT_TRUE(Within(refused)) << "as many as one likes wait to be read";
    ExpectAtMostResident(1500);
    ExpectOthersAreServed();
  }
  ExpectAllIsGivenBack(300);
}

class LargeExports : public HostileClients {
 protected:
  LargeExports()
      : HostileClients({"--client-rate", "0", "--solve-memory", "64MiB", "--all-solves-memory",
                        "128MiB", "--request-memory", "256MiB", "--cache-memory", "16MiB"}) {}
};

// Each tries 10,000 settings or more, and then solves; its ways to save take most of its memory.
TEST_F(LargeExports, AtOnceTakeNoMoreThanRequestsAndSolvesMay) {
  constexpr int kExports = 16;
  constexpr int kStages = 10'000;
  constexpr int kNames = 40;
  v1::SolveRequest large = LongSolveRequest(kStages, int64_t{500} << 30);
  for (v1::Stage& stage : *large.mutable_chain()->mutable_stages()) {
    v1::SaveOption& option = *stage.add_save_options();
    option.set_saved_bytes(stage.saved_bytes());
    option.set_backward_seconds(stage.backward_seconds());
    for (int name = 0; name < kNames; ++name) option.add_kept("a name of a module");
  }
  large.set_export_for("megatron");
  large.mutable_options()->set_time_budget_seconds(1);
  std::vector<std::future<grpc::Status>> exports;
  for (int i = 0; i < kExports; ++i) {
    exports.push_back(std::async(std::launch::async, [&, i] {
      v1::SolveRequest request = large;
      request.mutable_platform()->set_memory_bytes(large.platform().memory_bytes() + i);
      v1::SolveResponse response;
      return Remote(server_.address()).Solve(request, &response);
    }));
  }
  int answered = 0;
  for (std::future<grpc::Status>& each : exports) {
    const grpc::Status status = each.get();
    if (status.ok()) {
      ++answered;
    } else {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << Text(status);
    }
  }
  EXPECT_GE(answered, 1);
  EXPECT_LE(OfProcess(server_, "VmHWM") >> 10, 900 + SlackBytes() / kMiB);
  ExpectAllIsGivenBack(250);
}

TEST_F(HostileClients, AMessageOfSixtyFourMebibytesIsRefusedUnread) {
  std::vector<std::future<grpc::Status>> senders;
  senders.reserve(4);
  for (int i = 0; i < 4; ++i) {
    senders.push_back(std::async(std::launch::async, [this] {
      const Remote remote(server_.address());
      return remote.SendRaw("Solve", std::string(64 * kMiB, '\n'));
    }));
  }
  for (std::future<grpc::Status>& sender : senders) {
    const grpc::Status status = sender.get();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << Text(status);
    EXPECT_THAT(status.error_message(), HasSubstr("larger than max"));
  }
  ExpectAtMostResident(kQuotaMebibytes + 150);
  ExpectAllIsGivenBack(150);
}

// Two megabytes that would be two gigabytes.
TEST_F(HostileClients, CompressedRequestsAreNotInflated) {
  v1::SolveRequest bomb = cached_request_;
  bomb.mutable_chain()->set_name(std::string(500 * kMiB, 'x'));
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::SolveResponse response;
  const grpc::Status status = remote_.Solve(bomb, &response, &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << Text(status);
  ExpectAtMostResident(100);
  ExpectAllIsGivenBack(100);
}

// Each of them within the limit on messages.
TEST_F(HostileClients, RequestsThatNeverEndShareTheMemoryOfOneQuota) {
  {
    std::vector<std::unique_ptr<RawGrpc>> clients;
    size_t sent = 0;
    for (int i = 0; i < 40; ++i) {
      clients.push_back(std::make_unique<RawGrpc>(server_.address()));
      for (const uint32_t stream : {1, 3}) {
        clients.back()->Begin(stream, "Solve");
        sent += clients.back()->Send(stream, GrpcMessage(std::string(14 * kMiB, '\n'), 15 * kMiB),
                                     milliseconds(100));
      }
    }
    EXPECT_GT(sent, 100 * kMiB) << "or nothing was tried";
    ExpectAtMostResident(450);
    ExpectOthersAreServed();
  }
  ExpectAllIsGivenBack(200);
}

// Two bytes each, a hundred once they are parsed.
TEST_F(HostileClients, MillionsOfEmptyStagesAreCountedNotParsed) {
  v1::SolveRequest request;
  std::string stages;
  constexpr int kStages = 7'000'000;
  for (int i = 0; i < kStages; ++i) stages += std::string("\x22\0", 2);
  ASSERT_TRUE(request.mutable_chain()->ParseFromString(stages.substr(0, 4)));
  ASSERT_EQ(request.chain().stages_size(), 2) << "the number of the field";

  const auto first_field = [](const std::string& content) {
    std::string field("\x0a");
    for (size_t size = content.size(); size != 0; size >>= 7) {
      field.push_back(static_cast<char>((size & 0x7f) | (size > 0x7f ? 0x80 : 0)));
    }
    return field + content;
  };
  const std::string chain = first_field(stages);
  for (const char* method : {"Solve", "SolveStream", "Frontier", "Simulate", "Admit"}) {
    const bool is_job = std::string(method) == "Admit";
    const grpc::Status status = remote_.SendRaw(method, is_job ? first_field(chain) : chain);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << Text(status);
    EXPECT_THAT(status.error_message(),
                AllOf(StartsWith("chain.stages: has 7000000 stages"), HasSubstr("at most 10000")));
    ExpectAtMostResident(200);
  }
  // The parser also stores fields that are not in the schema.
  std::string unknown;
  for (int i = 0; i < kStages; ++i) unknown += std::string("\x78\0", 2);
  for (const char* method : {"Solve", "ListSolvers", "ReportExecution"}) {
    const grpc::Status status = remote_.SendRaw(method, unknown);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << Text(status);
    EXPECT_THAT(status.error_message(), StartsWith("request: has 7000000 fields"));
  }
  ExpectAtMostResident(200);
  ExpectAllIsGivenBack(150);
}

// Services whose messages no token protects from being read: each is sent more fields than a parser
// should store, by several clients at a time.
class MillionsOfFields : public testing::TestWithParam<const char*> {
 protected:
  const TempFolder folder_;
  const ServerProcess server_{{"--operator-token-file",
                               folder_.Write("operators", "oncall an-operators-token-0123456789"),
                               "--client-rate", "0"}};
};

TEST_P(MillionsOfFields, AreNotParsed) {
  std::string unknown;
  while (unknown.size() < 15 * kMiB) unknown += std::string("\x78\0", 2);
  EXPECT_EQ(Remote(server_.address()).Health(), HealthState::SERVING);
  std::vector<std::future<grpc::Status>> senders;
  for (int i = 0; i < 8; ++i) {
    senders.push_back(std::async(std::launch::async, [this, &unknown] {
      return Remote(server_.address()).SendRaw(GetParam(), unknown);
    }));
  }
  for (std::future<grpc::Status>& sender : senders) sender.wait();
  EXPECT_LE(OfProcess(server_, "VmHWM") >> 10, kQuotaMebibytes + 150 + SlackBytes() / kMiB);
  EXPECT_TRUE(Remote(server_.address()).Answers());
}

INSTANTIATE_TEST_SUITE_P(Services, MillionsOfFields,
                         testing::Values("/stowage.v1.Operator/DropAnswer",
                                         "/stowage.v1.Operator/ListSolves",
                                         "/grpc.health.v1.Health/Check",
                                         "/grpc.reflection.v1alpha.ServerReflection/"
                                         "ServerReflectionInfo"),
                         [](const auto& test) {
                           const std::string path = test.param;
                           return path.substr(path.rfind('/') + 1);
                         });

TEST_F(HostileClients, TenThousandConnections) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit before = files;
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const size_t count = std::min<size_t>(10'000, files.rlim_max - 200);
  {
    std::vector<RawSocket> sockets;
    while (sockets.size() < count) {
      sockets.emplace_back(server_.address());
      sockets.back().Send(Http2Preface());
    }
    std::cout << sockets.size() << " connections\n";
    ExpectAtMostResident(400);
    ExpectOthersAreServed();
  }
  setrlimit(RLIMIT_NOFILE, &before);
  ExpectAllIsGivenBack(200);
}

// Whether the server speaks to a client at that address.
bool IsServed(const ServerProcess& server, const std::string& from) {
  RawSocket socket(server.address(), from);
  socket.Send(Http2Preface());
  return !socket.Receive(kPatience).empty();
}

TEST(ConnectionsOfOneHost, AreRefusedBeyondTheirLimitWhileOtherHostsAreServed) {
  ServerProcess server({"--host-connections", "3"});
  std::vector<RawSocket> held;
  for (int i = 0; i < 3; ++i) {
    held.emplace_back(server.address()).Send(Http2Preface());
    EXPECT_NE(held.back().Receive(kPatience), "");
  }
  EXPECT_TRUE(RawSocket(server.address()).ClosedWithin(kPatience));
  EXPECT_NE(server.WaitForLogLine({"event=connection_refused", "reason=host_limit",
                                   "peer=ipv4:127.0.0.1:", "count=1"}),
            "");
  WaitForMetric(server, "stowage_connections_refused_total{reason=\"host_limit\"}", 1);
  EXPECT_EQ(MetricOf(server, "stowage_connections_accepted_total"), 3);
  EXPECT_TRUE(IsServed(server, "127.0.0.2"));
  // The server learns of the end of a connection after its client.
  held.pop_back();
  const Clock::time_point end = Clock::now() + kPatience;
  bool is_free = false;
  while (!is_free && Clock::now() < end) {
    is_free = IsServed(server, "127.0.0.1");
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(is_free);
}

TEST_F(HostileClients, AServerThatRanOutOfFilesComesBack) {
  // The limit that it would have met, closer.
  const rlimit few{OpenFiles() + 20, OpenFiles() + 20};
  ASSERT_EQ(prlimit(server_.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  {
    std::vector<RawSocket> sockets;
    sockets.reserve(100);
    for (int i = 0; i < 100; ++i) sockets.emplace_back(server_.address());
    size_t most = 0;
    EXPECT_TRUE(Within([&] {
      most = std::max(most, OpenFiles());
      return most + 2 >= few.rlim_cur;  // numbers that are not in use may lie above it
    })) << most
        << " of " << few.rlim_cur;
    v1::SolveResponse response;
    EXPECT_TRUE(remote_.Solve(cached_request_, &response).ok())
        << "a connection that there was before";
  }
  ExpectAllIsGivenBack(150);
}

TEST_F(HostileClients, RandomBytesAreNoRequest) {
  std::mt19937 random(17);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(random() % 5000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    // Some get past the first line.
    RawSocket grpc(server_.address());
    if (i % 2 == 0) grpc.Send(Http2Preface());
    grpc.Send(bytes);
    RawSocket http(server_.http_address());
    if (i % 2 == 0) http.Send("GET /metrics HTTP/1.1\r\n");
    http.Send(bytes);
    if (i % 3 == 0) http.Send("\r\n\r\n");
  }
  ExpectAtMostResident(150);
  ExpectAllIsGivenBack(150);
}

TEST_F(HostileClients, AClientThatSendsNothingIsDisconnected) {
  std::vector<RawSocket> sockets;
  sockets.reserve(200);
  for (int i = 0; i < 200; ++i) sockets.emplace_back(server_.address());
  const std::string preface = Http2Preface();
  for (size_t byte = 0; byte < 10; ++byte) {
    for (size_t i = 0; i < sockets.size(); i += 2) sockets[i].Send(preface.substr(byte, 1));
    ExpectOthersAreServed();
  }
  for (RawSocket& socket : sockets) EXPECT_TRUE(socket.ClosedWithin(kPatience));
  WaitForMetric(server_, "stowage_handshakes_failed_total{reason=\"timeout\"}", 200);
  EXPECT_NE(server_.WaitForLogLine({"event=handshake_failed", "reason=timeout", "peer=ipv4:127."}),
            "");
  ExpectAllIsGivenBack(150);
}

// As often as server/README.md promises: the third ping that came too early would end the
// connection. Each is sent after the last one was answered, so that none arrives earlier than it
// should.
TEST(Pings, WithoutACallAreAnswered) {
  const ServerProcess server;
  RawGrpc client(server.address());
  ASSERT_TRUE(client.Ping(kPatience));
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(milliseconds(5100));
    ASSERT_TRUE(client.Ping(kPatience));
  }
  client.Begin(1, "ListSolvers");
  client.Send(1, GrpcMessage("", 0), kPatience);
  client.End(1);
  EXPECT_THAT(client.FramesUntilEnd(1, kPatience), testing::MatchesRegex("HD+H"));
}

TEST_F(HostileClients, SlowClientsOfTheHttpPortHoldNobodyUp) {
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: slow\r\n";
  std::vector<RawSocket> sockets;
  sockets.reserve(100);
  for (int i = 0; i < 100; ++i) sockets.emplace_back(server_.http_address());
  for (size_t byte = 0; byte < request.size(); ++byte) {
    for (size_t i = 0; i < sockets.size(); i += 2) sockets[i].Send(request.substr(byte, 1));
    ExpectOperatorsAreServed();
  }
  for (RawSocket& socket : sockets) EXPECT_TRUE(socket.ClosedWithin(kPatience));
  ExpectAllIsGivenBack(150);
}

TEST_F(HostileClients, SixHundredConnectionsToTheHttpPortPushEachOtherOut) {
  std::vector<RawSocket> sockets;
  for (int i = 0; i < 600; ++i) {
    sockets.emplace_back(server_.http_address());
    if (i % 100 == 0) ExpectOperatorsAreServed();
  }
  EXPECT_TRUE(sockets.front().ClosedWithin(seconds(1))) << "before its time is over";
  EXPECT_TRUE(Within([&] { return OpenFiles() <= files_ + 256; }));
  EXPECT_GE(MetricOf(server_, "stowage_connections_refused_total{reason=\"http\"}"), 600 - 256);
  ExpectOthersAreServed();
  sockets.clear();
  ExpectAllIsGivenBack(150);
}

// One Range header can list the whole page thousands of times.
TEST_F(HostileClients, PartsOfAPageAreNotServed) {
  httplib::Client client("http://" + server_.http_address());
  std::string ranges = "bytes=0-";
  for (int i = 0; i < 1000; ++i) ranges += ",0-";
  const httplib::Result result = client.Get("/metrics", {{"range", ranges}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 416);
  EXPECT_EQ(result->body, "");
}

TEST_F(HostileClients, OnlyReadingIsAllowedOnTheHttpPort) {
  httplib::Client client("http://" + server_.http_address());
  for (const httplib::Result& result : {client.Post("/status", "x=1", "text/plain"),
                                        client.Delete("/"), client.Options("/livez")}) {
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 405);
    EXPECT_EQ(result->get_header_value("Allow"), "GET, HEAD");
  }
  const httplib::Result head = client.Head("/status");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->status, 200);
}

TEST_F(HostileClients, AHeaderOfTheHttpPortHasAnEnd) {
  RawSocket endless(server_.http_address());
  endless.Send("GET /livez HTTP/1.1\r\n");
  const std::string line = "X-Header: " + std::string(1000, 'x') + "\r\n";
  for (int i = 0; i < 100; ++i) endless.Send(line);
  EXPECT_TRUE(endless.ClosedWithin(kPatience));
  ExpectOthersAreServed();
}

}  // namespace
}  // namespace stowage::hostile_clients_test
