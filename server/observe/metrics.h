// What operators watch: counters and histograms of calls, answers and executions, and the engine's
// state at every scrape, in Prometheus' text format. deploy/README.md says what each means and what
// to do about it. The only user of the metrics library.
#ifndef STOWAGE_SERVER_OBSERVE_METRICS_H_
#define STOWAGE_SERVER_OBSERVE_METRICS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/cache/cache_tier.h"
#include "server/engine/engine.h"
#include "server/observe/observer.h"
#include "solver/base/mutex.h"

namespace stowage {

// The state of the server at a scrape, beside what Metrics counts itself.
struct Gauges {
  EngineStats engine;
  CacheStats memory;               // cached answers
  CacheStats responses;            // the serialized responses beside them
  int64_t memory_limit_bytes = 0;  // of both, a half each
  CacheStats disk;                 // all 0 without one
  int64_t disk_limit_bytes = 0;
  int64_t solve_limit_bytes = 0;
  std::optional<int64_t> certificate_end_seconds;  // since 1970; unset without TLS
  bool ready = false;
};

// Thread-safe.
class Metrics final : public Observer {
 public:
  explicit Metrics(const std::string& version);
  ~Metrics() override;

  // All metrics, in text format 0.0.4.
  std::string Text(const Gauges& gauges) const;

  void CallBegan(const std::string& method) override;
  void CallEnded(const CallRecord& record) override;
  void ExecutionReported(const ExecutionReport& report, const std::string& call_id) override;
  void StoreFailed(const absl::Status& status) override;
  void CredentialsReplaced(const std::string& which, const absl::Status& status) override;

 private:
  struct Families;
  struct Method;
  Method& Of(const std::string& name);

  const std::unique_ptr<Families> families_;
  // The series of each method, created at its first call: looking them up by their labels at every
  // call would take longer than everything else that a cache hit costs here.
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<Method>> methods_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_METRICS_H_
