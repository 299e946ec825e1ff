// Structured logs: one line an event, `key=value` pairs after the time and the level, on standard
// error. Values with spaces or quotes are quoted. The only user of the logging library.
#ifndef STOWAGE_SERVER_OBSERVE_LOG_H_
#define STOWAGE_SERVER_OBSERVE_LOG_H_

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/observe/observer.h"
#include "solver/base/mutex.h"

namespace stowage {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogField = std::pair<absl::string_view, std::string>;

// Errors: INVALID_ARGUMENT for a level that is none of debug, info, warning, error.
absl::Status SetLogLevel(absl::string_view level);

// Thread-safe. `event` is one word without spaces: Log(kInfo, "serving", {{"address", address}}).
void Log(LogLevel level, absl::string_view event, const std::vector<LogField>& fields);

// Flushes what is buffered; call before exit.
void FlushLog();

// Writes a line for every call that ended and for every execution report. Memory cache hits are
// logged at level debug, all else at info or above. Thread-safe.
class LogObserver final : public Observer {
 public:
  void CallBegan(const std::string& /*method*/) override {}
  void CallEnded(const CallRecord& record) override;
  void ExecutionReported(const ExecutionReport& report, const std::string& call_id) override;
  void StoreFailed(const absl::Status& status) override;
  void CredentialsReplaced(const std::string& which, const absl::Status& status) override;

 private:
  // A full disk fails every write to the cache, and the log is often on the same disk: a failure
  // that repeats is logged once a minute. The metric counts all.
  Mutex mutex_;
  absl::Status last_failure_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point last_failure_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_LOG_H_
