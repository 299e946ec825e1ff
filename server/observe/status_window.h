// What a server counted up to a moment, small enough to be kept for many moments, and the figures
// of the window between two of them.
#ifndef STOWAGE_SERVER_OBSERVE_STATUS_WINDOW_H_
#define STOWAGE_SERVER_OBSERVE_STATUS_WINDOW_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "prometheus/client_metric.h"
#include "server/observe/metrics.h"
#include "stowage/v1/status.pb.h"

namespace stowage {

using Counts = std::map<std::string, double>;  // by label
// Of a histogram: observations up to each bound, ascending; the last bound is infinite.
using Buckets = std::vector<prometheus::ClientMetric::Bucket>;

// Since the start of the process, when all counters are 0.
struct Totals {
  double uptime_seconds = 0;
  double cpu_seconds = 0;
  std::map<std::string, Counts> ended;     // calls, by method and gRPC code
  std::map<std::string, Buckets> latency;  // by method
  std::map<std::string, Counts> clients;   // by client and by counter: "calls", "refused", "solve"
  Counts answers;                          // by source
  std::map<std::string, Counts> lookups;   // by tier and by result: "hit", "miss", "failed"
  Counts rejected;                         // by reason
  Counts evictions;                        // by cache
  Counts store_failures;                   // by reason
  Buckets queue;
  Buckets time_error;
  Buckets peak_error;
};

Totals TotalsOf(const MetricsSnapshot& snapshot);
// Begun since the start, by method.
Counts CallsBegun(const MetricsSnapshot& snapshot);

// `before` is of an earlier moment of the same process; a default one is its start.
v1::StatusWindow WindowBetween(const Totals& before, const Totals& now);

// The quantile `share`, by linear interpolation in its bucket, as PromQL's histogram_quantile():
// the last finite bound for a quantile beyond it; the first bucket starts at 0. nullopt without
// observations. Requires: share in 0..1, and positive bounds.
std::optional<double> Quantile(const Buckets& buckets, double share);

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_STATUS_WINDOW_H_
