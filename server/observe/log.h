// Structured logs: one line an event on standard error, `key=value` pairs after the time and the
// level, where values with spaces or quotes are quoted, or one JSON object with the same keys.
// Nobody waits for who reads them (log_writer.h).
// The only user of the logging library.
#ifndef STOWAGE_SERVER_OBSERVE_LOG_H_
#define STOWAGE_SERVER_OBSERVE_LOG_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/service/execution_report.h"
#include "server/events/observer.h"
#include "server/observe/line_limit.h"
#include "solver/base/mutex.h"
#include "solver/base/time/rate_limit.h"

namespace stowage {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

enum class LogFormat { kText, kJson };

using LogField = std::pair<absl::string_view, std::string>;

// Errors: INVALID_ARGUMENT for a level that is none of debug, info, warning, error.
absl::Status CheckLogLevel(absl::string_view level);
absl::Status SetLogLevel(absl::string_view level);

// Before the first line.
void SetLogFormat(LogFormat format);

// Thread-safe. `event` is one word without spaces: Log(kInfo, "serving", {{"address", address}}).
void Log(LogLevel level, absl::string_view event, const std::vector<LogField>& fields);

// The same even where that level is not logged: who changed what of a running server.
void LogAlways(LogLevel level, absl::string_view event, const std::vector<LogField>& fields);

// Has a thread write the lines that a slow reader keeps waiting; once.
void StartLogThread();
// Writes the lines that wait, for a second at most; call before exit.
void FlushLog();
// Has a line say so where the process aborts, as gRPC does when it gets no memory.
void LogAbort();
// Lines that were dropped since the start because nobody read them.
int64_t DroppedLogLines();

// Writes a line for every call that ended and for every execution report. Memory cache hits are
// logged at level debug but for a sample, as are new connections, all else at info or above. A
// client that sends more calls than its lines are for is heard of once a second, by
// event=lines_suppressed. Thread-safe.
class LogObserver final : public Observer, public ConnectionObserver {
 public:
  struct Options {
    double client_lines_per_second = 0;  // about the calls of one client; 0: no limit
    double hit_share = 0;                // of memory cache hits, 0 to 1, that are logged
  };
  explicit LogObserver(const Options& options)
      : hit_share_(options.hit_share), lines_(options.client_lines_per_second, kBurstSeconds) {}
  // From now on.
  void Set(const Options& options) {
    hit_share_ = options.hit_share;
    lines_.SetRate(options.client_lines_per_second);
  }

  void CallBegan(const std::string& /*method*/) override {}
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

  // Lines that were not written because of the limit, since the start.
  int64_t suppressed() const { return suppressed_.load(std::memory_order_relaxed); }

 private:
  static constexpr double kBurstSeconds = 10;

  // Counts a line about a call of `client`; false: it has had enough of them.
  bool MayWrite(const std::string& client);

  bool IsSampled();

  std::atomic<double> hit_share_;
  RateLimit lines_;
  std::atomic<uint64_t> hits_{0};
  std::atomic<int64_t> suppressed_{0};

  // A full disk fails every write to the cache, and the log is often on the same disk: a failure
  // that repeats is logged once a minute. The metric counts all.
  Mutex mutex_;
  absl::Status last_failure_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point last_failure_at_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point last_suppressed_at_ ABSL_GUARDED_BY(mutex_);
  LineLimit refused_;            // connections, by reason
  LineLimit cut_off_;            // connections, by reason
  LineLimit failed_handshakes_;  // by reason
  LineLimit refused_readers_;    // all as one
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_LOG_H_
