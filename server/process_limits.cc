#include "server/process_limits.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/observe/gauges.h"
#include "server/observe/log.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

// Messages that arrive or wait to be sent, and what libraries allocate.
constexpr int64_t kMessageBytes = int64_t{32} << 20;
// With less for caches, solves and allocators a server would refuse nearly every request.
constexpr int64_t kMinBytes = int64_t{64} << 20;
// What the C library reserves for each arena but the first.
constexpr int64_t kArenaBytes = int64_t{64} << 20;

int64_t StackBytes() {
  pthread_attr_t attributes;
  size_t stack = 0;
  size_t guard = 0;
  pthread_getattr_default_np(&attributes);
  pthread_attr_getstacksize(&attributes, &stack);
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_destroy(&attributes);
  return static_cast<int64_t>(stack + guard);
}

// Starts the threads, all at a time, and ends them again: limits on processes count those of other
// processes too, so that only a trial tells whether they leave enough.
absl::Status TryThreads(int count) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  std::latch end(1);
  std::string error;
  try {
    while (static_cast<int>(threads.size()) < count) threads.emplace_back([&end] { end.wait(); });
  } catch (const std::system_error& refused) {
    error = refused.code().message();
  }
  end.count_down();
  for (std::thread& thread : threads) thread.join();
  if (error.empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "needs ", count, " threads, and the system allows ", threads.size(), ": ", error,
      "; raise the limit on processes (ulimit -u, TasksMax=) or on memory, or lower --threads"));
}

}  // namespace

// The engine's solver threads, as many spare ones, and their helpers; gRPC starts some threads for
// each processor.
int ThreadsOf(const EngineOptions& options, int processors) {
  constexpr int kOtherThreads = 25;  // timers, quick work, tiers, listeners, HTTP, files, log, OTLP
  constexpr int kGrpcThreads = 8;    // beside its pools
  const int grpc_pools = std::clamp(processors, 2, 32) + std::clamp(processors / 2, 2, 16);
  return 3 * options.threads + 2 * options.short_threads + kOtherThreads + kGrpcThreads +
         grpc_pools;
}

std::optional<int64_t> AddressSpaceLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(limit.rlim_cur);
}

absl::StatusOr<int64_t> ShareAddressSpace(const AddressSpace& space, int threads,
                                          ServerOptions* options) {
  const int64_t taken = space.mapped_bytes + threads * space.stack_bytes + kMessageBytes;
  if (space.limit_bytes - taken < kMinBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("needs ", FormatBytes(taken + kMinBytes), " of address space for ", threads,
                     " threads, and the limit is ", FormatBytes(space.limit_bytes),
                     "; raise it (ulimit -v, LimitAS=), or lower --threads"));
  }
  const int64_t reserves = (space.limit_bytes - taken) / 4;
  const int64_t room = space.limit_bytes - taken - reserves;
  EngineOptions& engine = options->engine;
  engine.request_bytes = std::min(engine.request_bytes, room / 8);
  if (room - options->cache_bytes < engine.all_solves_bytes) {
    options->cache_bytes = std::min(options->cache_bytes, room / 4);
    engine.all_solves_bytes = std::min(engine.all_solves_bytes, room - options->cache_bytes);
    engine.solve_bytes = std::min(engine.solve_bytes, engine.all_solves_bytes);
  }
  return reserves;
}

absl::Status FitIntoProcessLimits(ServerOptions* options) {
  const int threads = ThreadsOf(options->engine, static_cast<int>(sysconf(_SC_NPROCESSORS_CONF)));
  if (const std::optional<int64_t> limit_bytes = AddressSpaceLimit(); limit_bytes.has_value()) {
    const int64_t wanted_bytes = options->cache_bytes + options->engine.all_solves_bytes;
    const AddressSpace space = {.limit_bytes = *limit_bytes,
                                .mapped_bytes = static_cast<int64_t>(ReadProcess().virtual_bytes),
                                .stack_bytes = StackBytes()};
    ASSIGN_OR_RETURN(const int64_t reserves, ShareAddressSpace(space, threads, options));
    // By default the reserves of many threads would leave no room for the stacks of others.
    mallopt(M_ARENA_MAX, static_cast<int>(std::min<int64_t>(1 + reserves / kArenaBytes, threads)));
    if (options->cache_bytes + options->engine.all_solves_bytes < wanted_bytes) {
      Log(LogLevel::kWarning, "limits_lowered",
          {{"address_space", FormatBytes(space.limit_bytes)},
           {"cache_memory", FormatBytes(options->cache_bytes)},
           {"solve_memory", FormatBytes(options->engine.solve_bytes)},
           {"all_solves_memory", FormatBytes(options->engine.all_solves_bytes)},
           {"remedy", "raise the limit on address space (ulimit -v, LimitAS=), or set these"}});
    }
  }
  return TryThreads(threads);
}

}  // namespace stowage
