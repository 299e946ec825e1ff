#include "server/observe/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace stowage {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using Labels = prometheus::Labels;
using Buckets = Histogram::BucketBoundaries;

constexpr const char* kService = "stowage.v1.Scheduler";

// From a cache hit, below a millisecond, to a solve of minutes.
Buckets Seconds() {
  return {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
          0.5,    1,     2.5,    5,     10,   30,    60,   300};
}
Buckets Ratios() { return {0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2}; }
// The size of an error, without its sign: Prometheus takes a sum that decreases for a restart.
// Bounded, because one absurd report would dominate the sum until the next restart.
double Size(double error) { return std::min(std::abs(error), 1000.0); }

// "MEMORY_CACHE" as a label: "memory_cache".
std::string Label(absl::string_view name) { return absl::AsciiStrToLower(name); }

// The name that common gRPC dashboards use: "ResourceExhausted".
std::string CodeName(absl::StatusCode code) {
  std::string name;
  bool begins = true;
  for (const char c : absl::StatusCodeToString(code)) {
    if (c == '_') {
      begins = true;
      continue;
    }
    name.push_back(begins ? c : absl::ascii_tolower(static_cast<unsigned char>(c)));
    begins = false;
  }
  return code == absl::StatusCode::kCancelled ? "Canceled" : name == "Ok" ? "OK" : name;
}

// The value of label `reason` for a call that was rejected; empty: it was not.
std::string RejectionOf(const absl::Status& status) {
  if (const auto reason = status.GetPayload(kRejectionPayload)) return std::string(*reason);
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "invalid";
    case absl::StatusCode::kResourceExhausted:
      return "solve_memory";
    case absl::StatusCode::kUnavailable:
      return "draining";
    case absl::StatusCode::kUnauthenticated:
      return "unauthenticated";
    default:
      return "";
  }
}

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Of the process itself; exported under the names that all Prometheus clients use.
struct Process {
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double open_files = 0;
};

Process LookAtProcess() {
  Process process;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  process.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  std::ifstream pages("/proc/self/statm");
  double total = 0;
  double resident = 0;
  if (pages >> total >> resident) {
    process.resident_bytes = resident * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    (void)file;
    ++process.open_files;
  }
  return process;
}

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;

  Family<Counter>& AddCounter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Family<Histogram>& AddHistogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }

  Family<Counter>& started = AddCounter("grpc_server_started_total", "Started calls.");
  Family<Counter>& handled =
      AddCounter("grpc_server_handled_total", "Ended calls, by status code.");
  Family<Histogram>& handling = AddHistogram(
      "grpc_server_handling_seconds", "Time from a call's arrival to its response, in seconds.");
  Family<Counter>& answers =
      AddCounter("stowage_answers_total", "Answers to Solve and SolveStream, by source.");
  Family<Counter>& rejected =
      AddCounter("stowage_rejected_total", "Calls that were rejected, by reason.");
  Family<Histogram>& solve = AddHistogram(
      "stowage_solve_seconds", "Time to solve and simulate, in seconds, by requested solver.");
  Family<Histogram>& queue =
      AddHistogram("stowage_queue_seconds", "Time that a solve waited in the queue, in seconds.");
  Family<Histogram>& overhead =
      AddHistogram("stowage_schedule_overhead_ratio",
                   "Makespan divided by that of storing everything, minus 1, of solved schedules.");
  Family<Histogram>& gap =
      AddHistogram("stowage_schedule_gap_ratio",
                   "Makespan divided by the lower bound, minus 1, of solved schedules.");
  Family<Counter>& refused =
      AddCounter("stowage_schedules_refused_total",
                 "Schedules that the simulator refused, each due to a bug of its solver.");
  Family<Counter>& store_failures = AddCounter(
      "stowage_store_failures_total", "Failed reads and writes of the disk cache, by reason.");
  Family<Counter>& credentials = AddCounter("stowage_credential_reloads_total",
                                            "Reloads of certificate and tokens, by result.");
  Family<Gauge>& current =
      prometheus::BuildGauge()
          .Name("stowage_credentials_current")
          .Help(
              "1 while the certificate or tokens in use are those of their files, 0 while the "
              "files are unusable and older ones are in use.")
          .Register(registry);
  Family<Histogram>& time_error =
      AddHistogram("stowage_prediction_time_error_ratio",
                   "How far the measured step time was from the predicted one, as a share of it.");
  Family<Histogram>& peak_error = AddHistogram(
      "stowage_prediction_peak_error_ratio",
      "How far the measured peak memory was from the predicted one, as a share of it.");
  Histogram& queue_all = queue.Add({}, Seconds());
  Histogram& time_error_all = time_error.Add({}, Ratios());
  Histogram& peak_error_all = peak_error.Add({}, Ratios());

  Counter& hits = answers.Add({{"source", "memory_cache"}});  // found once, for CallEnded()

  static Labels LabelsOf(const std::string& method) {
    return {{"grpc_type", method == "SolveStream" ? "server_stream" : "unary"},
            {"grpc_service", kService},
            {"grpc_method", method}};
  }
};

struct Metrics::Method {
  Method(const std::string& name, Families& families)
      : labels(Families::LabelsOf(name)),
        started(families.started.Add(labels)),
        handling(families.handling.Add(labels, Seconds())),
        ok(families.handled.Add(With(absl::StatusCode::kOk))) {}

  Labels With(absl::StatusCode code) const {
    Labels with = labels;
    with.emplace("grpc_code", CodeName(code));
    return with;
  }

  const Labels labels;
  Counter& started;
  Histogram& handling;
  Counter& ok;
};

// Series are never removed, so that the reference stays valid without the lock.
Metrics::Method& Metrics::Of(const std::string& name) {
  MutexLock lock(mutex_);
  std::unique_ptr<Method>& method = methods_[name];
  if (method == nullptr) method = std::make_unique<Method>(name, *families_);
  return *method;
}

Metrics::Metrics(const std::string& version) : families_(std::make_unique<Families>()) {
  prometheus::BuildGauge()
      .Name("stowage_build_info")
      .Help("1, with the version as a label.")
      .Register(families_->registry)
      .Add({{"version", version}})
      .Set(1);
  prometheus::BuildGauge()
      .Name("process_start_time_seconds")
      .Help("When the process began, in seconds since 1970.")
      .Register(families_->registry)
      .Add({})
      .Set(UnixSeconds());  // with fractions: two servers in a second are two
  // Series exist, as 0, before the first event: rate() of an absent series has no value, and an
  // alert on it would miss that event.
  for (const char* source : {"solved", "memory_cache", "disk_cache", "coalesced"}) {
    families_->answers.Add({{"source", source}});
  }
  for (const char* reason : {"invalid", "queue_full", "client_limit", "solve_memory", "memory",
                             "unread", "draining", "unauthenticated"}) {
    families_->rejected.Add({{"reason", reason}});
  }
  for (const char* which : {"certificate", "tokens"}) {
    families_->current.Add({{"which", which}}).Set(1);
    for (const char* result : {"ok", "failed"}) {
      families_->credentials.Add({{"which", which}, {"result", result}});
    }
  }
  for (const char* reason : {"damaged", "unavailable"}) {
    families_->store_failures.Add({{"reason", reason}});
  }
}

Metrics::~Metrics() = default;

void Metrics::CallBegan(const std::string& method) { Of(method).started.Increment(); }

// Memory cache hits, which are the most frequent, return before any series is looked up by labels.
// What describes a solve (solve time, overhead, gap) is observed for its SOLVED answer only, hence
// once a solve, however many callers shared it. A frontier is many solves: only its wait counts.
void Metrics::CallEnded(const CallRecord& record) {
  Families& families = *families_;
  Method& method = Of(record.method);
  method.handling.Observe(record.seconds);
  if (record.status.ok()) {
    method.ok.Increment();
  } else {
    families.handled.Add(method.With(record.status.code())).Increment();
  }
  const bool has_answer = record.answer.has_value();
  if (has_answer && record.answer->origin.source == Origin::Source::kMemoryCache) {
    return families.hits.Increment();
  }
  if (const std::string reason = RejectionOf(record.status); !reason.empty()) {
    families.rejected.Add({{"reason", reason}}).Increment();
  }
  if (!has_answer) return;
  const AnswerRecord& answer = *record.answer;
  // Also where the call failed afterwards: the bug is the solver's all the same.
  for (const std::string& solver : answer.rejected) {
    families.refused.Add({{"solver", solver}}).Increment();
  }
  if (!record.status.ok()) return;
  if (record.method == "Frontier") return families.queue_all.Observe(answer.origin.queue_seconds);
  families.answers.Add({{"source", Label(SourceName(answer.origin.source))}}).Increment();
  if (answer.origin.source != Origin::Source::kSolved) return;
  families.queue_all.Observe(answer.origin.queue_seconds);
  families.solve.Add({{"solver", record.solver}}, Seconds()).Observe(answer.origin.solve_seconds);
  if (answer.outcome == Outcome::kInfeasible) return;
  families.overhead.Add({{"solver", answer.solver}}, Ratios()).Observe(answer.overhead);
  families.gap.Add({{"solver", answer.solver}}, Ratios()).Observe(answer.gap);
}

void Metrics::ExecutionReported(const ExecutionReport& report, const std::string& /*call_id*/) {
  families_->time_error_all.Observe(Size(report.time_error()));
  families_->peak_error_all.Observe(Size(report.peak_error()));
}

void Metrics::StoreFailed(const absl::Status& status) {
  const char* const reason = absl::IsDataLoss(status) ? "damaged" : "unavailable";
  families_->store_failures.Add({{"reason", reason}}).Increment();
}

void Metrics::CredentialsReplaced(const std::string& which, const absl::Status& status) {
  families_->current.Add({{"which", which}}).Set(status.ok() ? 1 : 0);
  families_->credentials.Add({{"which", which}, {"result", status.ok() ? "ok" : "failed"}})
      .Increment();
}

std::string Metrics::Text(const Gauges& gauges) const {
  prometheus::Registry now;
  const auto gauge = [&now](const char* name, const char* help) -> Family<Gauge>& {
    return prometheus::BuildGauge().Name(name).Help(help).Register(now);
  };
  const auto counter = [&now](const char* name, const char* help) -> Family<Counter>& {
    return prometheus::BuildCounter().Name(name).Help(help).Register(now);
  };
  const auto set = [](Family<Gauge>& family, auto value, const Labels& labels = {}) {
    family.Add(labels).Set(static_cast<double>(value));
  };
  set(gauge("stowage_ready", "1 while the server accepts calls, 0 while it starts or drains."),
      gauges.ready ? 1 : 0);
  const WorkQueue::Stats& solves = gauges.engine.solves;
  set(gauge("stowage_solves_waiting", "Solves in the queue."), solves.waiting);
  set(gauge("stowage_solves_waiting_limit", "Most solves that may wait."),
      gauges.engine.queue_length);
  set(gauge("stowage_solves_running", "Running solves."), solves.running);
  set(gauge("stowage_solves_running_limit", "Solver threads."), gauges.engine.threads);
  // One series a thread at any time, whatever they solve.
  auto& running =
      gauge("stowage_running_solve_seconds", "Time since a running solve began, in seconds.");
  auto& progress =
      gauge("stowage_running_solve_progress_ratio", "Completed share of a running solve, 0 to 1.");
  auto& stages = gauge("stowage_running_solve_stages", "Stages of the chain of a running solve.");
  for (const RunningSolve& solve : gauges.engine.running) {
    const Labels labels = {{"thread", std::to_string(solve.thread)}, {"solver", solve.solver}};
    set(running, solve.seconds, labels);
    set(progress, solve.fraction, labels);
    set(stages, solve.stages, labels);
  }
  set(gauge("stowage_requests_in_flight",
            "Requests that wait or are being solved; equal ones count once."),
      gauges.engine.requests);
  set(gauge("stowage_solve_memory_bytes", "Memory that running solves may take, in bytes."),
      solves.running_bytes);
  set(gauge("stowage_solve_memory_limit_bytes", "Memory set aside for all solves, in bytes."),
      gauges.solve_limit_bytes);
  auto& bytes = gauge("stowage_cache_bytes", "Size of the cached entries, in bytes.");
  auto& limits = gauge("stowage_cache_limit_bytes", "Size limit of the cache, in bytes.");
  auto& entries = gauge("stowage_cache_entries", "Cached entries.");
  auto& evictions = counter("stowage_cache_evictions_total", "Entries evicted to make room.");
  const auto tier = [&](const char* name, const CacheStats& stats, int64_t limit_bytes) {
    const Labels labels = {{"tier", name}};
    set(bytes, stats.bytes, labels);
    set(limits, limit_bytes, labels);
    set(entries, stats.entries, labels);
    evictions.Add(labels).Increment(static_cast<double>(stats.evictions));
  };
  tier("memory", gauges.memory, gauges.memory_limit_bytes - gauges.memory_limit_bytes / 2);
  tier("responses", gauges.responses, gauges.memory_limit_bytes / 2);
  tier("disk", gauges.disk, gauges.disk_limit_bytes);
  if (gauges.certificate_end_seconds.has_value()) {
    set(gauge("stowage_tls_certificate_end_seconds",
              "When the server's certificate expires, in seconds since 1970."),
        *gauges.certificate_end_seconds);
  }
  const Process process = LookAtProcess();
  set(gauge("process_resident_memory_bytes", "Resident memory of the process, in bytes."),
      process.resident_bytes);
  set(gauge("process_open_fds", "Open files and sockets."), process.open_files);
  counter("process_cpu_seconds_total", "CPU time of the process, in seconds.")
      .Add({})
      .Increment(process.cpu_seconds);

  std::vector<prometheus::MetricFamily> all = families_->registry.Collect();
  for (prometheus::MetricFamily& family : now.Collect()) all.push_back(std::move(family));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace stowage
