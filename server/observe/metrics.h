// What operators watch: counters and histograms of calls, answers and executions, and the engine's
// state at every look. deploy/docs/operate.md has what each means and when to look at it.
#ifndef STOWAGE_SERVER_OBSERVE_METRICS_H_
#define STOWAGE_SERVER_OBSERVE_METRICS_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "prometheus/metric_family.h"
#include "proto/service/execution_report.h"
#include "server/events/observer.h"
#include "server/observe/client_metrics.h"
#include "server/observe/gauges.h"
#include "solver/base/mutex.h"

namespace stowage {

// The server at one moment: what /metrics and /status show.
struct MetricsSnapshot {
  std::string version;
  double start_unix_seconds = 0;
  double uptime_seconds = 0;  // since the start, by a monotonic clock, in whole microseconds
  Gauges gauges;
  std::vector<prometheus::MetricFamily> families;  // of counters and gauges, by name

  // Empty where there are none.
  const std::vector<prometheus::ClientMetric>& SeriesOf(absl::string_view name) const;
  // In Prometheus' text format 0.0.4.
  std::string Text() const;
};

// Thread-safe.
class Metrics final : public Observer, public ConnectionObserver {
 public:
  explicit Metrics(const std::string& version);
  ~Metrics() override;

  // `gauges`: as they are now.
  MetricsSnapshot Collect(Gauges gauges) const;

  void CallBegan(const std::string& method) override;
  void CallEnded(const CallRecord& record) override;
  void ExecutionReported(const ExecutionReport& report, const CallRecord& call) override;
  void OperatorActed(const OperatorAction& action) override;
  void StoreFailed(const absl::Status& status) override;
  void CredentialsReplaced(const std::string& which, const absl::Status& status) override;
  void ConnectionAccepted(const std::string& peer) override;
  void ConnectionRefused(const RefusedConnection& connection) override;
  void ConnectionCutOff(const CutConnection& connection) override;
  void HandshakeFailed(const FailedHandshake& handshake) override;
  void ReaderRefused(const RefusedReader& reader) override;

 private:
  struct Families;
  struct Method;
  Method* Find(const std::string& name) const;  // null: it has not been called yet
  Method& Of(const std::string& name);

  const std::string version_;
  const double start_unix_seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::unique_ptr<Families> families_;
  mutable ClientMetrics clients_;
  // A list of the series of each method, created at its first call: looking them up by their labels
  // at every call would take longer than everything else that a cache hit costs here. It is read
  // without the lock, which is held where one is put in front; they are removed by the destructor.
  Mutex mutex_;
  std::atomic<Method*> methods_{nullptr};
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_METRICS_H_
