// The state of the server at a scrape, as metric families.
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

namespace stowage {

// A tier of the cache below memory; one that is not in use has a name alone.
struct TierGauges {
  TierStats stats = {};
  GuardStats guard = {};
  int64_t limit_bytes = 0;
};

// The state that Metrics does not count itself; its owner reads it at every scrape.
struct Gauges {
  EngineStats engine;
  CacheStats memory;               // cached answers
  CacheStats responses;            // the serialized responses beside them
  int64_t memory_limit_bytes = 0;  // of both, a half each
  std::vector<TierGauges> tiers;
  LeaseStats leases;
  int64_t solve_limit_bytes = 0;
  std::optional<int64_t> certificate_end_seconds;  // since 1970; unset without TLS
  int64_t suppressed_lines = 0;                    // of the log, since the start
  int64_t dropped_lines = 0;                       // likewise
  bool ready = false;
};

// One family for each gauge, and for evictions and the process's own figures. Reads /proc/self.
// Thread-safe.
std::vector<prometheus::MetricFamily> CollectGauges(const Gauges& gauges);

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_GAUGES_H_
