// The state of the server at one moment, and its metric families.
#ifndef STOWAGE_SERVER_OBSERVE_GAUGES_H_
#define STOWAGE_SERVER_OBSERVE_GAUGES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "prometheus/metric_family.h"
#include "server/cache/answer_cache.h"
#include "server/cache/cache_tier.h"
#include "server/cache/solve_leases.h"
#include "server/cache/tiers/guarded_tier.h"
#include "server/engine/engine.h"
#include "server/observe/span_queue.h"

namespace stowage {

// A tier of the cache below memory; one that is not in use has a name alone.
struct TierGauges {
  TierStats stats = {};
  GuardStats guard = {};
  bool in_use = false;
  int64_t limit_bytes = 0;  // 0: it has none of its own
};

// Of the process itself.
struct ProcessStats {
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double virtual_bytes = 0;
  double open_files = 0;
  double max_files = 0;
  double threads = 0;
};
ProcessStats ReadProcess();

// The state that Metrics does not count itself; its owner reads it at every look.
struct Gauges {
  EngineStats engine;
  CacheStats memory;               // cached answers
  CacheStats responses;            // the serialized responses beside them
  int64_t memory_limit_bytes = 0;  // of both
  std::vector<TierGauges> tiers;
  LeaseStats leases;
  int64_t solve_limit_bytes = 0;
  int64_t request_limit_bytes = 0;
  std::optional<int64_t> certificate_end_seconds;  // since 1970; unset without TLS
  int64_t suppressed_lines = 0;                    // of the log, since the start
  int64_t dropped_lines = 0;                       // likewise
  SpanCounts spans;                                // of traces
  bool ready = false;
  ProcessStats process;

  // Answers and responses have a half of the memory each.
  int64_t answers_limit_bytes() const { return memory_limit_bytes - memory_limit_bytes / 2; }
  int64_t responses_limit_bytes() const { return memory_limit_bytes / 2; }
};

// One family for each gauge, and for evictions and the process's own figures.
std::vector<prometheus::MetricFamily> CollectGauges(const Gauges& gauges);

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_GAUGES_H_
