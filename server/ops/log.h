// Structured logs: one line an event, `key=value` pairs after the time and the level, on standard
// error. Values with spaces or quotes are quoted. The only place that knows the logging library.
#ifndef STOWAGE_SERVER_OPS_LOG_H_
#define STOWAGE_SERVER_OPS_LOG_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/observer.h"

namespace stowage {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogField = std::pair<absl::string_view, std::string>;

// Errors: INVALID_ARGUMENT for a level that is none of debug, info, warning, error.
absl::Status SetLogLevel(absl::string_view level);

// Thread-safe. `event` is a word: Log(kInfo, "serving", {{"address", address}}).
void Log(LogLevel level, absl::string_view event, const std::vector<LogField>& fields);

// Flushes what is buffered; call before exit.
void FlushLog();

// Writes a line for every call that ended, and for every report; answers from memory are for
// whoever debugs.
class LogObserver final : public Observer {
 public:
  void CallBegan(const std::string& /*method*/) override {}
  void CallEnded(const CallRecord& record) override;
  void ExecutionReported(const ExecutionReport& report) override;
  void StoreFailed(const absl::Status& status) override;
  void CredentialsReplaced(const std::string& which, const absl::Status& status) override;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OPS_LOG_H_
