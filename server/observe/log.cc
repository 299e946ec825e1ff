#include "server/observe/log.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "proto/service/origin.h"
#include "server/events/rejection.h"
#include "server/observe/log_writer.h"
#include "solver/base/quote.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

namespace stowage {
namespace {

LogFormat format = LogFormat::kText;  // written by SetLogFormat() alone

const char* Pattern() {
  if (format == LogFormat::kText) return "time=%Y-%m-%dT%H:%M:%S.%f%z level=%l %v";
  return R"({"time":"%Y-%m-%dT%H:%M:%S.%f%z","level":"%l",%v})";
}

// The value as it is where it is one plain word, else quoted, with control characters escaped: a
// caller's text can neither begin a new line nor add a field.
std::string TextField(const std::string& shown) {
  const bool plain = !shown.empty() && std::all_of(shown.begin(), shown.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != '"' && c != '=' && c != '\\';
  });
  return plain ? shown : absl::StrCat("\"", absl::CHexEscape(shown), "\"");
}

// A JSON string, or a number where the key is one of kNumbers; bytes that are no UTF-8 are
// replaced.
std::string JsonField(absl::string_view key, const std::string& shown) {
  // Of these keys the program makes the values itself.
  static constexpr absl::string_view kNumbers[] = {"count",
                                                   "grace_seconds",
                                                   "measured_peak_bytes",
                                                   "measured_seconds",
                                                   "peak_error",
                                                   "predicted_peak_bytes",
                                                   "predicted_seconds",
                                                   "present",
                                                   "queue_seconds",
                                                   "seconds",
                                                   "signal",
                                                   "solve_seconds",
                                                   "stages",
                                                   "suppressed_of_all",
                                                   "threads",
                                                   "time_error"};
  if (absl::c_linear_search(kNumbers, key)) {
    const nlohmann::json number = nlohmann::json::parse(shown, nullptr, /*allow_exceptions=*/false);
    if (number.is_number()) return number.dump();
  }
  return nlohmann::json(shown).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Keys and events are the program's own; only values may come from a caller. Long values are
// shortened.
std::string Line(absl::string_view event, const std::vector<LogField>& fields) {
  constexpr size_t kMaxBytes = 2048;
  const bool is_json = format == LogFormat::kJson;
  std::string line =
      is_json ? absl::StrCat("\"event\":\"", event, "\"") : absl::StrCat("event=", event);
  for (const auto& [key, value] : fields) {
    const std::string shown = Shortened(value, kMaxBytes);
    if (is_json) {
      absl::StrAppend(&line, ",\"", key, "\":", JsonField(key, shown));
    } else {
      absl::StrAppend(&line, " ", key, "=", TextField(shown));
    }
  }
  return line;
}

std::string DroppedLine(int64_t lines) {
  spdlog::memory_buf_t text;
  const std::string message = Line("log_lines_dropped", {{"count", absl::StrCat(lines)}});
  const spdlog::details::log_msg line("stowage", spdlog::level::warn, message);
  spdlog::pattern_formatter(Pattern()).format(line, text);
  return {text.data(), text.size()};
}

// Never destroyed: threads log late.
LogWriter& Writer() {
  constexpr size_t kMaxBytes = 4 << 20;  // of lines that wait for a reader that is slow
  static auto* const writer = new LogWriter(STDERR_FILENO, kMaxBytes, DroppedLine);
  return *writer;
}

class WriterSink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    Writer().Write({text.data(), text.size()});
  }
  void flush_() override {}
};

// Never destroyed, as the writer.
spdlog::logger* NewLogger() {
  auto* made = new spdlog::logger("stowage", std::make_shared<WriterSink>());
  made->set_pattern(Pattern());
  return made;
}

spdlog::logger& Logger() {
  static spdlog::logger* const logger = NewLogger();
  return *logger;
}

// Its level stays as it is.
spdlog::logger& LoggerOfAll() {
  static spdlog::logger* const logger = NewLogger();
  return *logger;
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string Seconds(double value) { return absl::StrFormat("%.6f", value); }

}  // namespace

absl::Status CheckLogLevel(absl::string_view level) {
  for (const char* name : {"debug", "info", "warning", "error"}) {
    if (level == name) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("log level '", level, "' is none of debug, info, warning, error"));
}

absl::Status SetLogLevel(absl::string_view level) {
  absl::Status checked = CheckLogLevel(level);
  if (checked.ok()) Logger().set_level(spdlog::level::from_str(std::string(level)));
  return checked;
}

void SetLogFormat(LogFormat chosen) {
  format = chosen;
  Logger().set_pattern(Pattern());
  LoggerOfAll().set_pattern(Pattern());
}

void Log(LogLevel level, absl::string_view event, const std::vector<LogField>& fields) {
  const spdlog::level::level_enum spdlog_level = SpdlogLevel(level);
  if (!Logger().should_log(spdlog_level)) return;
  Logger().log(spdlog_level, Line(event, fields));
}

void LogAlways(LogLevel level, absl::string_view event, const std::vector<LogField>& fields) {
  LoggerOfAll().log(SpdlogLevel(level), Line(event, fields));
}

void StartLogThread() { Writer().Start(); }

void FlushLog() {
  (void)Writer().Flush(std::chrono::steady_clock::now() + std::chrono::seconds(1));
}

// In a handler of signals nothing but write() is safe: neither the time nor the other lines' locks.
void LogAbort() {
  static const std::string* const line = [] {  // never freed, as the writer
    const std::string text =
        Line("aborted", {{"message", "the process got no memory from the system, or met a bug"},
                         {"remedy",
                          "raise its memory limit, or lower --solve-memory, --request-memory or "
                          "--cache-memory; else report it with the lines above"}});
    return new std::string(format == LogFormat::kJson
                               ? absl::StrCat("{\"level\":\"error\",", text, "}\n")
                               : absl::StrCat("level=error ", text, "\n"));
  }();
  std::signal(SIGABRT, [](int signal) {
    (void)!write(STDERR_FILENO, line->data(), line->size());
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  });
}

int64_t DroppedLogLines() { return Writer().dropped(); }

// Every n-th hit.
bool LogObserver::IsSampled() {
  const double share = hit_share_.load(std::memory_order_relaxed);
  if (share <= 0) return false;
  const auto every = static_cast<uint64_t>(std::lround(1 / std::max(share, 1e-9)));
  return hits_.fetch_add(1, std::memory_order_relaxed) % std::max<uint64_t>(every, 1) == 0;
}

bool LogObserver::MayWrite(const std::string& client) {
  const auto now = std::chrono::steady_clock::now();
  if (!lines_.Refuses(client, now).has_value()) return true;
  suppressed_.fetch_add(1, std::memory_order_relaxed);
  {
    MutexLock lock(mutex_);
    if (now < last_suppressed_at_ + std::chrono::seconds(1)) return false;
    last_suppressed_at_ = now;
  }
  Log(LogLevel::kWarning, "lines_suppressed",
      {{"client", client},
       {"suppressed_of_all", absl::StrCat(suppressed())},
       {"remedy", "look at what this client sends, or raise --client-log-rate"}});
  return false;
}

// One line a call; a second one where the simulator refused a schedule, whatever the level.
void LogObserver::CallEnded(const CallRecord& record) {
  const AnswerRecord* const answer = record.answer.get();
  // Cache hits are too many for the log of a production server.
  const bool is_hit = answer != nullptr && answer->origin.source == Origin::Source::kMemoryCache;
  const bool has_bug = answer != nullptr && !answer->rejected.empty();
  const LogLevel level = is_hit && !IsSampled() ? LogLevel::kDebug : LogLevel::kInfo;
  if (!Logger().should_log(SpdlogLevel(level)) && !has_bug) return;
  if (!has_bug && !MayWrite(record.client)) return;
  std::vector<LogField> fields = {{"method", record.method},
                                  {"id", record.id},
                                  {"peer", record.peer},
                                  {"client", record.client},
                                  {"code", absl::StatusCodeToString(record.status.code())},
                                  {"seconds", Seconds(record.seconds)}};
  if (!record.trace.empty()) fields.emplace_back("trace", record.trace);
  if (record.stages > 0) fields.emplace_back("stages", absl::StrCat(record.stages));
  if (!record.solver.empty()) fields.emplace_back("solver", record.solver);
  if (answer != nullptr) {
    fields.emplace_back("origin", answer->solver);
    fields.emplace_back("source", std::string(SourceName(answer->origin.source)));
    fields.emplace_back("fingerprint", answer->origin.fingerprint);
  }
  if (answer != nullptr && record.method != "Frontier") {  // which has no one outcome
    fields.emplace_back("outcome", std::string(OutcomeName(answer->outcome)));
    fields.emplace_back("queue_seconds", Seconds(answer->origin.queue_seconds));
    fields.emplace_back("solve_seconds", Seconds(answer->origin.solve_seconds));
  }
  if (const std::string reason = RejectionOf(record.status); !reason.empty()) {
    fields.emplace_back("reason", reason);
  }
  if (!record.status.ok()) fields.emplace_back("message", std::string(record.status.message()));
  Log(level, "call", fields);
  if (!has_bug) return;
  Log(LogLevel::kError, "schedule_refused",
      {{"id", record.id},
       {"solvers", absl::StrJoin(answer->rejected, ",")},
       {"remedy", "a solver has a bug: report it with the request"}});
}

// Refused actions, too: somebody tries tokens, or has an old one.
void LogObserver::OperatorActed(const OperatorAction& action) {
  if (action.name.empty() && !MayWrite("operators' service")) return;
  std::vector<LogField> fields = {{"action", action.action},
                                  {"peer", action.peer},
                                  {"operator", action.name},
                                  {"code", absl::StatusCodeToString(action.status.code())}};
  if (!action.target.empty()) fields.emplace_back("target", action.target);
  if (!action.status.ok()) fields.emplace_back("message", std::string(action.status.message()));
  if (action.name.empty()) return Log(LogLevel::kWarning, "operator", fields);
  if (!action.changes) return Log(LogLevel::kDebug, "operator", fields);
  LogAlways(LogLevel::kInfo, "operator", fields);
}

void LogObserver::StoreFailed(const absl::Status& status) {
  {
    const auto now = std::chrono::steady_clock::now();
    MutexLock lock(mutex_);
    if (status == last_failure_ && now < last_failure_at_ + std::chrono::minutes(1)) return;
    last_failure_ = status;
    last_failure_at_ = now;
  }
  Log(LogLevel::kWarning, "store_failed",
      {{"code", absl::StatusCodeToString(status.code())},
       {"message", std::string(status.message())}});
}

void LogObserver::CredentialsReplaced(const std::string& which, const absl::Status& status) {
  if (status.ok()) return Log(LogLevel::kInfo, "credentials_replaced", {{"which", which}});
  Log(LogLevel::kError, "credentials_unusable",
      {{"which", which},
       {"message", std::string(status.message())},
       {"remedy", "fix the file; what was read before stays in force"}});
}

void LogObserver::ConnectionAccepted(const std::string& peer) {
  Log(LogLevel::kDebug, "connection", {{"peer", peer}});
}

void LogObserver::ConnectionRefused(const RefusedConnection& connection) {
  const std::optional<int64_t> count =
      refused_.Admit(connection.reason, std::chrono::steady_clock::now());
  if (!count.has_value()) return;
  Log(LogLevel::kWarning, "connection_refused",
      {{"reason", connection.reason}, {"peer", connection.peer}, {"count", absl::StrCat(*count)}});
}

void LogObserver::ConnectionCutOff(const CutConnection& connection) {
  const std::optional<int64_t> count =
      cut_off_.Admit(connection.reason, std::chrono::steady_clock::now());
  if (!count.has_value()) return;
  Log(LogLevel::kWarning, "connection_cut_off",
      {{"reason", connection.reason}, {"peer", connection.peer}, {"count", absl::StrCat(*count)}});
}

void LogObserver::HandshakeFailed(const FailedHandshake& handshake) {
  const std::optional<int64_t> count =
      failed_handshakes_.Admit(handshake.reason, std::chrono::steady_clock::now());
  if (!count.has_value()) return;
  std::vector<LogField> fields = {{"reason", handshake.reason},
                                  {"message", handshake.message},
                                  {"count", absl::StrCat(*count)}};
  if (!handshake.peer.empty()) fields.emplace_back("peer", handshake.peer);
  Log(LogLevel::kWarning, "handshake_failed", fields);
}

void LogObserver::ReaderRefused(const RefusedReader& reader) {
  const std::optional<int64_t> count =
      refused_readers_.Admit("all", std::chrono::steady_clock::now());
  if (!count.has_value()) return;
  Log(LogLevel::kWarning, "http_refused",
      {{"peer", reader.peer}, {"message", reader.message}, {"count", absl::StrCat(*count)}});
}

void LogObserver::ExecutionReported(const ExecutionReport& report, const CallRecord& call) {
  if (!MayWrite(call.client)) return;
  std::vector<LogField> fields = {{"id", call.id}, {"client", call.client}};
  if (!call.trace.empty()) fields.emplace_back("trace", call.trace);
  if (!report.job.empty()) fields.emplace_back("job", report.job);
  if (!report.agent.empty()) fields.emplace_back("agent", report.agent);
  if (!report.fingerprint.empty()) fields.emplace_back("fingerprint", report.fingerprint);
  fields.insert(fields.end(), {{"predicted_seconds", Seconds(report.predicted_step_seconds)},
                               {"measured_seconds", Seconds(report.measured_step_seconds)},
                               {"time_error", absl::StrFormat("%.4f", report.time_error())},
                               {"predicted_peak_bytes", absl::StrCat(report.predicted_peak_bytes)},
                               {"measured_peak_bytes", absl::StrCat(report.measured_peak_bytes)},
                               {"peak_error", absl::StrFormat("%.4f", report.peak_error())}});
  Log(LogLevel::kInfo, "execution", fields);
}

}  // namespace stowage
