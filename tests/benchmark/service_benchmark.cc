// What the service costs beside a bare gRPC echo of the same message sizes, in one run on one
// machine: cache hits, a thousand equal requests at once, cache hits while all threads
// solve, start-up with a full disk cache, memory under mixed load. Prints one table. Client and
// servers share the cores.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "server/cache/tiers/sqlite_tier.h"
#include "solver/bounds/memory_range.h"
#include "stowage/v1/scheduler.grpc.pb.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/files.h"
#include "tests/support/numbered_keys.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kInFlight = 32;
constexpr const char* kEcho = "/Echo/Echo";
constexpr const char* kSolve = "/stowage.v1.Scheduler/Solve";

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

// Answers every call with the same bytes.
class EchoService final : public grpc::CallbackGenericService {
 public:
  explicit EchoService(size_t bytes) : answer_(BufferOf(std::string(bytes, 'x'))) {}

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(const grpc::ByteBuffer& answer) : answer_(answer) { StartRead(&request_); }

   private:
    void OnReadDone(bool ok) override {
      ok ? StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK)
         : Finish(grpc::Status::OK);
    }
    void OnDone() override { delete this; }
    grpc::ByteBuffer request_;
    grpc::ByteBuffer answer_;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor(answer_);
  }

  const grpc::ByteBuffer answer_;
};

// This program as the echo's server, until it is killed.
int ServeEcho(size_t bytes) {
  EchoService service(bytes);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::fprintf(stderr, "event=serving address=127.0.0.1:%d \n", port);
  server->Wait();
  return 0;
}

struct Throughput {
  double per_second = 0;
  double p50 = 0;
  double p99 = 0;
};

// Sends the same bytes over and over, so many at a time, without looking at the answers.
class Sender {
 public:
  Sender(const std::string& address, const std::string& method, const std::string& request)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())),
        method_(method),
        request_(BufferOf(request)) {}

  // The size of one answer.
  size_t Once() {
    std::promise<void> done;
    auto* const call = new Call;
    size_t bytes = 0;
    stub_.UnaryCall(&call->context, method_, {}, &request_, &call->answer,
                    [&](const grpc::Status& status) {
                      if (!status.ok()) Give(status.error_message());
                      bytes = call->answer.Length();
                      done.set_value();
                    });
    done.get_future().wait();
    delete call;
    return bytes;
  }

  Throughput Run(double seconds) {
    latencies_.clear();
    begin_ = Clock::now();
    end_ = begin_ +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    in_flight_ = kInFlight;
    for (int i = 0; i < kInFlight; ++i) Send();
    all_ended_.get_future().wait();
    const double took = SecondsSince(begin_);
    all_ended_ = {};
    std::sort(latencies_.begin(), latencies_.end());
    const auto count = latencies_.size();
    return {static_cast<double>(count) / took, latencies_[count / 2], latencies_[count * 99 / 100]};
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer answer;
    Clock::time_point sent = Clock::now();
  };

  [[noreturn]] static void Give(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(1);
  }

  void Send() {
    auto* const call = new Call;
    stub_.UnaryCall(&call->context, method_, {}, &request_, &call->answer,
                    [this, call](const grpc::Status& status) {
                      if (!status.ok()) Give(status.error_message());
                      const double latency = SecondsSince(call->sent);
                      delete call;
                      {
                        const std::lock_guard lock(mutex_);
                        latencies_.push_back(latency);
                      }
                      if (Clock::now() < end_) return Send();
                      if (--in_flight_ == 0) all_ended_.set_value();
                    });
  }

  grpc::GenericStub stub_;
  const std::string method_;
  const grpc::ByteBuffer request_;
  Clock::time_point begin_;
  Clock::time_point end_;
  std::atomic<int> in_flight_{0};
  std::promise<void> all_ended_;
  std::mutex mutex_;
  std::vector<double> latencies_;
};

v1::SolveRequest RequestFor(const std::string& profile, double share, double bandwidth) {
  v1::SolveRequest request;
  const auto read = FromJson(ReadFile(ProfilePath(profile)), "chain", request.mutable_chain());
  if (!read.ok()) std::abort();
  const Chain chain = FromMessage(request.chain());
  const auto low = static_cast<double>(FloorOfMemory(chain).bytes);
  const auto high = static_cast<double>(StoreAllPeakBytes(chain));
  request.mutable_platform()->set_memory_bytes(static_cast<int64_t>(low + share * (high - low)));
  request.mutable_platform()->set_offload_bytes_per_second(bandwidth);
  return request;
}

// A chain of exactly 100 stages: those of a 339-stage network.
v1::SolveRequest HundredStages() {
  v1::SolveRequest request = RequestFor("preact-resnet1001-8-224", 0.3, 0);
  auto& stages = *request.mutable_chain()->mutable_stages();
  stages.DeleteSubrange(100, stages.size() - 100);
  const Chain chain = FromMessage(request.chain());
  request.mutable_platform()->set_memory_bytes(StoreAllPeakBytes(chain) / 3);
  return request;
}

void Line(const std::string& what, const std::string& figure, const std::string& aim) {
  absl::PrintF("%-62s %-44s %s\n", what, figure, aim);
}

void CompareWithEcho(const char* program, double seconds) {
  ServerProcess server({"--client-rate", "0"});
  const std::string request = HundredStages().SerializeAsString();
  Sender hits(server.address(), kSolve, request);
  hits.Once();
  const size_t bytes = hits.Once();
  BackgroundProgram echo({program, "--echo", absl::StrCat(bytes)});
  const std::string line = echo.WaitForLogLine({"event=serving"});
  Sender echoes(ValueOf(line, "address="), kEcho, request);
  echoes.Once();
  Throughput best_hit;
  Throughput best_echo;
  double hit_p99 = 1e9;
  double echo_p99 = 1e9;
  for (int round = 0; round < 3; ++round) {
    const Throughput hit = hits.Run(seconds);
    const Throughput bare = echoes.Run(seconds);
    if (hit.per_second > best_hit.per_second) best_hit = hit;
    if (bare.per_second > best_echo.per_second) best_echo = bare;
    hit_p99 = std::min(hit_p99, hit.p99);
    echo_p99 = std::min(echo_p99, bare.p99);
  }
  Line(absl::StrFormat("cache hit, 100 stages, %d in flight (%d and %d bytes)", kInFlight,
                       request.size(), bytes),
       absl::StrFormat("%.0f/s, echo %.0f/s: ratio %.2f", best_hit.per_second, best_echo.per_second,
                       best_hit.per_second / best_echo.per_second),
       "at least 0.5");
  Line("  its p99 beside the echo's",
       absl::StrFormat("%.2f ms, echo %.2f ms", 1e3 * hit_p99, 1e3 * echo_p99),
       "at most 2 ms more");
}

void SolveTogether() {
  constexpr int kCallers = 1000;
  ServerProcess server({"--client-rate", "0"});
  const v1::SolveRequest request = RequestFor("preact-resnet1001-8-224", 0.2, 12e9);
  const auto stub = v1::Scheduler::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  struct PendingCall {
    grpc::ClientContext context;
    v1::SolveResponse response;
  };
  std::vector<PendingCall> calls(kCallers);
  std::atomic<int> left{kCallers};
  std::atomic<int> failed{0};
  std::promise<void> done;
  const auto begin = Clock::now();
  for (PendingCall& call : calls) {
    stub->async()->Solve(&call.context, &request, &call.response, [&](const grpc::Status& status) {
      if (!status.ok()) ++failed;
      if (--left == 0) done.set_value();
    });
  }
  done.get_future().wait();
  const double last = SecondsSince(begin);
  double solve = 0;
  int solved = 0;
  for (const PendingCall& call : calls) {
    if (call.response.origin().source() != v1::Origin::SOLVED) continue;
    ++solved;
    solve = std::max(solve, call.response.origin().solve_seconds());
  }
  Line(absl::StrFormat("%d equal requests at once, %d solves, %d failed", kCallers, solved,
                       failed.load()),
       absl::StrFormat("solve %.2f s, last answer %.2f s: ratio %.2f", solve, last, last / solve),
       "1 solve, at most 1.2");
}

void HitWhileBusy(double seconds) {
  ServerProcess server({"--threads", "2", "--client-rate", "0"});
  const auto channel = grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials());
  const auto stub = v1::Scheduler::NewStub(channel);
  const v1::SolveRequest hit = HundredStages();
  v1::SolveResponse response;
  {
    grpc::ClientContext context;
    if (!stub->Solve(&context, hit, &response).ok()) std::abort();
  }
  // Four cold solves of several seconds each: two run, two wait.
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::jthread> cold;
  for (int i = 0; i < 4; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    cold.emplace_back([&stub, context = contexts.back().get(), i] {
      v1::SolveResponse ignored;
      (void)stub->Solve(context, RequestFor("preact-resnet1001-8-224", 0.2 + 0.05 * i, 12e9),
                        &ignored);
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::vector<double> latencies;
  const auto begin = Clock::now();
  while (SecondsSince(begin) < seconds) {
    const auto sent = Clock::now();
    grpc::ClientContext context;
    if (!stub->Solve(&context, hit, &response).ok()) std::abort();
    latencies.push_back(SecondsSince(sent));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (const auto& context : contexts) context->TryCancel();
  cold.clear();
  std::sort(latencies.begin(), latencies.end());
  Line(absl::StrFormat("cache hits while all threads solve (%d requests)", latencies.size()),
       absl::StrFormat("p50 %.2f ms, p99 %.2f ms", 1e3 * latencies[latencies.size() / 2],
                       1e3 * latencies[latencies.size() * 99 / 100]),
       "p99 under 20 ms");
}

// A disk cache of a gigabyte: schedules of ten thousand operations.
void FillDiskCache(const std::string& directory) {
  auto tier = SqliteTier::Open(directory, {int64_t{1} << 30});
  if (!tier.ok()) std::abort();
  CachedAnswer cached;
  cached.answer.outcome = Outcome::kFeasible;
  cached.answer.solver = "rotor";
  for (int i = 0; i < 10'000; ++i) {
    cached.answer.schedule.operations.push_back({OperationKind::kForwardSave, i + 1});
  }
  for (uint64_t number = 0; (*tier)->stats().evictions == 0; ++number) {
    cached.keys = NumberedKeys(number);
    if (!(*tier)->Put(std::make_shared<const CachedAnswer>(cached)).ok()) std::abort();
  }
}

void StartWithFullDiskCache() {
  const TempFolder folder;
  FillDiskCache(folder.Path("cache"));
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto begin = Clock::now();
    ServerProcess server({"--cache-dir", folder.Path("cache"), "--cache-disk", "1GiB"});
    best = std::min(best, SecondsSince(begin));
  }
  Line("start-up to SERVING with a disk cache of 1 GiB", absl::StrFormat("%.0f ms", 1e3 * best),
       "under 300 ms");
}

int64_t ResidentBytes(pid_t pid) {
  std::ifstream pages(absl::StrCat("/proc/", pid, "/statm"));
  int64_t total = 0;
  int64_t resident = 0;
  pages >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Requests that are cached, new and in flight together, from real profiles, every answer checked;
// more of them than the caches have room for.
void BearMixedLoad(const std::string& program, double seconds) {
  constexpr int kCacheMebibytes = 32;
  constexpr int kSolvesMebibytes = 256;
  constexpr int kRestMebibytes = 96;  // the program, its threads, requests and answers on their way
  const TempFolder folder;
  ServerProcess server({"--client-rate", "0", "--cache-dir", folder.Path("cache"), "--cache-disk",
                        "32MiB", "--cache-memory", absl::StrCat(kCacheMebibytes, "MiB"),
                        "--solve-memory", absl::StrCat(kSolvesMebibytes / 2, "MiB"),
                        "--all-solves-memory", absl::StrCat(kSolvesMebibytes, "MiB")});
  BackgroundProgram load(
      {std::filesystem::path(program).parent_path() / "stowage", "load", "--server",
       server.address(), "--concurrency", "32", "--mix", "50,40,10", "--solver", "rotor",
       "--duration", absl::StrCat(seconds, "s"), ProfilePath("torchvision-resnet101-32-224"),
       ProfilePath("pipedream-vgg16-128-224"), ProfilePath("analytic-gpt2xl-4-1024"),
       ProfilePath("preact-resnet1001-8-224"), ProfilePath("torchvision-densenet161-16-500")});
  int64_t most = 0;
  const auto begin = Clock::now();
  while (SecondsSince(begin) < seconds) {
    most = std::max(most, ResidentBytes(server.pid()));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const std::optional<int> exit_code = load.WaitForExit();
  Line(absl::StrFormat("resident over %.0f s of mixed load, answers %s", seconds,
                       exit_code == 0 ? "all right" : "WRONG"),
       absl::StrFormat("at most %d MiB", most >> 20),
       absl::StrFormat("%d MiB: caches %d, solves %d, rest %d",
                       kCacheMebibytes + kSolvesMebibytes + kRestMebibytes, kCacheMebibytes,
                       kSolvesMebibytes, kRestMebibytes));
}

int Main(int argc, char** argv) {
  double seconds = 5;
  double load_seconds = 600;
  int64_t echo_bytes = 0;
  std::vector<std::string> echo;
  BenchmarkFlags flags("stowage_service_benchmark",
                       "Prints what the service costs beside a bare gRPC echo of the same message "
                       "sizes.");
  flags.AddNumber("--seconds", {0.1, 3600.0}, &seconds, "of each measurement of throughput");
  flags.AddNumber("--load-seconds", {1.0, 86400.0}, &load_seconds, "of mixed load");
  flags.AddInternalTexts("--echo", &echo);
  if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
  if (!echo.empty() && absl::SimpleAtoi(echo.front(), &echo_bytes)) {
    return ServeEcho(static_cast<size_t>(echo_bytes));
  }
  Line("the service", "measured", "aim");
  Progress("cache hits and echoes");
  CompareWithEcho(argv[0], seconds);
  Progress("equal requests at once");
  SolveTogether();
  Progress("cache hits while all threads solve");
  HitWhileBusy(seconds);
  Progress("start-up with a full disk cache");
  StartWithFullDiskCache();
  Progress("mixed load");
  BearMixedLoad(argv[0], load_seconds);
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
