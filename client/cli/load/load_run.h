// Load on a server: concurrent callers send requests that hit its cache, that miss it, and that are
// equal and simultaneous, and check every answer.
#ifndef STOWAGE_CLIENT_CLI_LOAD_LOAD_RUN_H_
#define STOWAGE_CLIENT_CLI_LOAD_LOAD_RUN_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/lib/rpc/failover_client.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/request.h"

namespace stowage {

// Kinds of requests.
enum class LoadKind {
  kHit,        // one of a few, in the server's cache after the first time
  kMiss,       // a new one
  kDuplicate,  // a new one that other callers send at the same time
};
inline constexpr std::array<const char*, 3> kLoadKindNames = {"hits", "misses", "duplicates"};

struct LoadOptions {
  RemoteOptions remote;
  bool repeats = false;                 // calls, as jobs do; else every error counts
  int concurrency = 8;                  // callers, each with one request in flight
  double rate = 0;                      // requests a second of all callers; 0: no pauses
  double seconds = 10;                  // for how long requests are sent
  std::array<int, 3> mix = {90, 5, 5};  // shares, by kind
  std::string solver;                   // empty: "auto"
  Platform platform;                    // every request sets its budget
  SolveOptions solve;
};

// Latencies are in seconds, sorted. At a rate they count from the time at which the request was
// due, not from the time at which it was sent, so that they include the delay of a server that
// falls behind (no coordinated omission).
struct LoadResult {
  double seconds = 0;                            // wall time of the run
  std::array<std::vector<double>, 3> latencies;  // of answers, by kind
  std::map<std::string, int64_t> sources;        // "MEMORY_CACHE": how many answers
  std::map<std::string, int64_t> errors;         // by code
  std::vector<std::string> wrong;                // answers that the simulator contradicts
  int64_t answers = 0;
  int64_t wrong_answers = 0;
};

// Requests schedules for the chains in turn, at budgets from M_low to M_high. Blocks until the last
// answer. Requires: chains is not empty, and none has violations.
LoadResult RunLoad(const LoadOptions& options, const std::vector<Chain>& chains);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_LOAD_LOAD_RUN_H_
