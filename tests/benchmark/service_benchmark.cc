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
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "grpcpp/grpcpp.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "server/cache/tiers/sqlite_tier.h"
#include "solver/bounds/memory_range.h"
#include "stowage/v1/scheduler.grpc.pb.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/benchmark/hit_comparison.h"
#include "tests/support/files.h"
#include "tests/support/numbered_keys.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

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
  absl::PrintF("%-76s %-44s %s\n", what, figure, aim);
}

void CompareHits(const char* program, const Load& load, double seconds) {
  const std::string request = HundredStages().SerializeAsString();
  const HitComparison compared = CompareWithEcho(program, request, load, seconds);
  Line(absl::StrFormat("cache hits, 100 stages, callers %d, connections %d (%d and %d bytes)",
                       load.callers, load.connections, request.size(), compared.response_bytes),
       absl::StrFormat("%.0f/s, echo %.0f/s: ratio %.2f", compared.hits.per_second,
                       compared.echoes.per_second, compared.ratio),
       "at least 0.85");
  Line("  their p99 beside the echo's",
       absl::StrFormat("%.2f ms, echo %.2f ms", 1e3 * compared.hits.p99_seconds,
                       1e3 * compared.echoes.p99_seconds),
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
  // Each job has a connection of its own; the callers behind a proxy share them.
  CompareHits(argv[0], {.callers = 32, .connections = 32}, seconds);
  CompareHits(argv[0], {.callers = 32, .connections = 1}, seconds);
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
