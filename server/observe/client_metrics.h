// Metrics of each client, for as many clients as a Prometheus server can take.
#ifndef STOWAGE_SERVER_OBSERVE_CLIENT_METRICS_H_
#define STOWAGE_SERVER_OBSERVE_CLIENT_METRICS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "prometheus/metric_family.h"
#include "server/events/observer.h"
#include "solver/base/mutex.h"

namespace stowage {

// The busiest clients have series of their own, labelled with their names; all others share the
// label "other". Which ones are busiest is decided anew at a scrape, once a minute at most. A
// client that gets a series of its own starts it at 0, so that no counter ever decreases.
// Thread-safe.
class ClientMetrics {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ClientMetrics(size_t max_labels = 20) : max_labels_(max_labels) {}

  void CallEnded(const CallRecord& record);

  // One family for each counter.
  std::vector<prometheus::MetricFamily> Collect(Clock::time_point now);

 private:
  struct Totals {
    double calls = 0;
    double refused = 0;  // RESOURCE_EXHAUSTED, UNAUTHENTICATED, INVALID_ARGUMENT
    double solve_seconds = 0;
  };
  static void Add(const CallRecord& record, Totals* totals);
  void ChooseLabels() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_labels_;
  Mutex mutex_;
  std::map<std::string, Totals> labelled_ ABSL_GUARDED_BY(mutex_);
  Totals others_ ABSL_GUARDED_BY(mutex_);
  // Calls since the labels were chosen; of a bounded number of clients.
  absl::flat_hash_map<std::string, int64_t> recent_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point chosen_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_CLIENT_METRICS_H_
