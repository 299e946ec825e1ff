// Load on a server: many callers who ask known, new and simultaneous questions, and check every
// answer.
#ifndef STOWAGE_CLIENT_CLI_LOAD_LOAD_RUN_H_
#define STOWAGE_CLIENT_CLI_LOAD_LOAD_RUN_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/client.h"
#include "solver/model/chain.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// What a caller asks.
enum class LoadKind {
  kHit,        // one of a few questions, which the server knows after the first time
  kMiss,       // one that nobody asked before
  kDuplicate,  // one that nobody asked before, and that others ask at the same time
};
inline constexpr std::array<const char*, 3> kLoadKindNames = {"hits", "misses", "duplicates"};

struct LoadOptions {
  ClientOptions client;
  int concurrency = 8;                  // callers, each with one question at a time
  double rate = 0;                      // questions a second of all together; 0: as fast as it goes
  double seconds = 10;                  // how long questions are asked
  std::array<int, 3> mix = {90, 5, 5};  // shares, by kind
  std::string solver;                   // empty: "auto"
  v1::Platform platform;                // but for its budget, which every question sets
  v1::SolveOptions solve;
};

// What came of it. Latencies in seconds, sorted; at a rate they count from when the question was
// due, so that a server that falls behind shows it.
struct LoadResult {
  double seconds = 0;                            // that it took
  std::array<std::vector<double>, 3> latencies;  // of answers, by kind
  std::map<std::string, int64_t> sources;        // "MEMORY_CACHE": how many answers
  std::map<std::string, int64_t> errors;         // by code
  std::vector<std::string> wrong;                // answers that the simulator contradicts
  int64_t answers = 0;
  int64_t wrong_answers = 0;
};

// Asks about the chains in turn, at budgets between the least and the most that they need. Blocks
// until the last answer. Requires: chains is not empty, and none has violations.
LoadResult RunLoad(const LoadOptions& options, const std::vector<v1::Chain>& chains);

// The latency below which a share of them are. Requires: sorted, not empty; share in 0..1.
double PercentileOf(const std::vector<double>& sorted, double share);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_LOAD_LOAD_RUN_H_
