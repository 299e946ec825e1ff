#include "server/observe/metrics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "proto/service/origin.h"
#include "server/events/rejection.h"

namespace stowage {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using Labels = prometheus::Labels;
using Boundaries = Histogram::BucketBoundaries;

constexpr const char* kService = "stowage.v1.Scheduler";

// From a cache hit, below a millisecond, to a solve of minutes.
Boundaries Seconds() {
  return {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
          0.5,    1,     2.5,    5,     10,   30,    60,   300};
}
Boundaries Ratios() { return {0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2}; }
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

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
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
  Family<Histogram>& answer_seconds =
      AddHistogram("stowage_answer_seconds",
                   "Time from the arrival of Solve or SolveStream to its answer, in seconds, by "
                   "source.");
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
  Family<Counter>& operator_actions =
      AddCounter("stowage_operator_actions_total", "Calls of the operators' service, by action.");
  Family<Counter>& store_failures = AddCounter(
      "stowage_store_failures_total", "Failed reads and writes of the cache's tiers, by reason.");
  Family<Counter>& credentials = AddCounter("stowage_credential_reloads_total",
                                            "Reloads of certificate and tokens, by result.");
  Family<Gauge>& current =
      prometheus::BuildGauge()
          .Name("stowage_credentials_current")
          .Help(
              "1 while the certificate or tokens in use are those of their files, 0 while the "
              "files are unusable and older ones are in use.")
          .Register(registry);
  Family<Counter>& accepted =
      AddCounter("stowage_connections_accepted_total", "Connections that were accepted.");
  Family<Counter>& connections_refused =
      AddCounter("stowage_connections_refused_total",
                 "Connections that were closed before they were served, by reason.");
  Family<Counter>& connections_cut_off =
      AddCounter("stowage_connections_cut_off_total",
                 "Connections that were cut off because they made the server work for nothing, by "
                 "reason.");
  Family<Counter>& handshakes_failed =
      AddCounter("stowage_handshakes_failed_total", "Failed handshakes, by reason.");
  Family<Counter>& readers_refused =
      AddCounter("stowage_http_refused_total",
                 "Requests of the HTTP port without a valid token, or for another host.");
  Family<Histogram>& time_error =
      AddHistogram("stowage_prediction_time_error_ratio",
                   "How far the measured step time was from the predicted one, as a share of it.");
  Family<Histogram>& peak_error = AddHistogram(
      "stowage_prediction_peak_error_ratio",
      "How far the measured peak memory was from the predicted one, as a share of it.");
  Histogram& queue_all = queue.Add({}, Seconds());
  Histogram& time_error_all = time_error.Add({}, Ratios());
  Histogram& peak_error_all = peak_error.Add({}, Ratios());

  // Found once, for CallEnded().
  Counter& hits = answers.Add({{"source", "memory_cache"}});
  Histogram& hit_seconds = answer_seconds.Add({{"source", "memory_cache"}}, Seconds());
  Counter& accepted_all = accepted.Add({});
  Counter& readers_refused_all = readers_refused.Add({});

  // From 0: a rate does not see the increase with which a series begins.
  Families() {
    for (const char* reason :
         {kTooManyOfHost, kTooOften, kBarred, kTooFewDescriptors, kTooManyOperators}) {
      connections_refused.Add({{"reason", reason}});
    }
    for (const char* reason : {kCutNoCalls, kCutControl, kCutResets}) {
      connections_cut_off.Add({{"reason", reason}});
    }
    for (const char* reason :
         {kHandshakeNotTls, kHandshakeNoCertificate, kHandshakeUntrusted, kHandshakeRejected,
          kHandshakeIncompatible, kHandshakeTimeout, kHandshakeClosed, kHandshakeOther}) {
      handshakes_failed.Add({{"reason", reason}});
    }
  }

  static Labels LabelsOf(const std::string& method) {
    return {{"grpc_type", method == "SolveStream" ? "server_stream" : "unary"},
            {"grpc_service", kService},
            {"grpc_method", method}};
  }
};

struct Metrics::Method {
  Method(const std::string& its_name, Families& families)
      : name(its_name),
        is_frontier(name == "Frontier"),
        labels(Families::LabelsOf(name)),
        started(families.started.Add(labels)),
        handling(families.handling.Add(labels, Seconds())),
        ok(families.handled.Add(With(absl::StatusCode::kOk))) {}

  Labels With(absl::StatusCode code) const {
    Labels with = labels;
    with.emplace("grpc_code", CodeName(code));
    return with;
  }

  const std::string name;
  const bool is_frontier;
  const Labels labels;
  Counter& started;
  Histogram& handling;
  Counter& ok;
  std::unique_ptr<Method> next = {};  // in the list of all; immutable once this one is in it
};

Metrics::Method* Metrics::Find(const std::string& name) const {
  Method* method = methods_.load(std::memory_order_acquire);
  while (method != nullptr && method->name != name) method = method->next.get();
  return method;
}

Metrics::Method& Metrics::Of(const std::string& name) {
  if (Method* const method = Find(name); method != nullptr) return *method;
  MutexLock lock(mutex_);
  if (Method* const method = Find(name); method != nullptr) return *method;
  auto method = std::make_unique<Method>(name, *families_);
  method->next.reset(methods_.load(std::memory_order_relaxed));
  methods_.store(method.get(), std::memory_order_release);
  return *method.release();
}

Metrics::Metrics(const std::string& version)
    : version_(version),
      start_unix_seconds_(UnixSeconds()),
      families_(std::make_unique<Families>()) {
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
      .Set(start_unix_seconds_);  // with fractions: two servers in a second are two
  // Series exist, as 0, before the first event: rate() of an absent series has no value, and an
  // alert on it would miss that event.
  for (const char* source : {"solved", "memory_cache", "disk_cache", "shared_cache", "coalesced"}) {
    families_->answers.Add({{"source", source}});
    families_->answer_seconds.Add({{"source", source}}, Seconds());
  }
  for (const char* reason : {"invalid", "queue_full", "client_limit", "client_rate", "solve_memory",
                             "memory", "request_memory", "unread", "draining", "unauthenticated"}) {
    families_->rejected.Add({{"reason", reason}});
  }
  for (const char* which : {"certificate", "tokens", "http_tokens", "operator_tokens"}) {
    families_->current.Add({{"which", which}}).Set(1);
    for (const char* result : {"ok", "failed"}) {
      families_->credentials.Add({{"which", which}, {"result", result}});
    }
  }
  for (const char* reason : {"damaged", "unavailable"}) {
    families_->store_failures.Add({{"reason", reason}});
  }
}

Metrics::~Metrics() { delete methods_.load(); }

void Metrics::CallBegan(const std::string& method) { Of(method).started.Increment(); }

// Memory cache hits, which are the most frequent, return before any series is looked up by labels.
// What describes a solve (solve time, overhead, gap) is observed for its SOLVED answer only, hence
// once a solve, however many callers shared it. A frontier is many solves: only its wait counts.
void Metrics::CallEnded(const CallRecord& record) {
  Families& families = *families_;
  Method& method = Of(record.method);
  method.handling.Observe(record.seconds);
  clients_.CallEnded(record);
  if (record.status.ok()) {
    method.ok.Increment();
  } else {
    families.handled.Add(method.With(record.status.code())).Increment();
  }
  const bool has_answer = record.answer != nullptr;
  const bool is_frontier = method.is_frontier;
  if (record.status.ok() && has_answer && !is_frontier &&
      record.answer->origin.source == Origin::Source::kMemoryCache) {
    families.hit_seconds.Observe(record.seconds);
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
  const bool is_solved = answer.origin.source == Origin::Source::kSolved;
  if (is_frontier && is_solved) families.queue_all.Observe(answer.origin.queue_seconds);
  if (is_frontier) return;
  const Labels source = {{"source", Label(SourceName(answer.origin.source))}};
  families.answers.Add(source).Increment();
  families.answer_seconds.Add(source, Seconds()).Observe(record.seconds);
  if (!is_solved) return;
  families.queue_all.Observe(answer.origin.queue_seconds);
  families.solve.Add({{"solver", record.solver}}, Seconds()).Observe(answer.origin.solve_seconds);
  if (answer.outcome == Outcome::kInfeasible) return;
  families.overhead.Add({{"solver", answer.solver}}, Ratios()).Observe(answer.overhead);
  families.gap.Add({{"solver", answer.solver}}, Ratios()).Observe(answer.gap);
}

void Metrics::ExecutionReported(const ExecutionReport& report, const CallRecord& /*call*/) {
  families_->time_error_all.Observe(Size(report.time_error()));
  families_->peak_error_all.Observe(Size(report.peak_error()));
}

void Metrics::OperatorActed(const OperatorAction& action) {
  families_->operator_actions
      .Add({{"action", action.action}, {"grpc_code", CodeName(action.status.code())}})
      .Increment();
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

void Metrics::ConnectionAccepted(const std::string& /*peer*/) {
  families_->accepted_all.Increment();
}

void Metrics::ConnectionRefused(const RefusedConnection& connection) {
  families_->connections_refused.Add({{"reason", connection.reason}}).Increment();
}

void Metrics::ConnectionCutOff(const CutConnection& connection) {
  families_->connections_cut_off.Add({{"reason", connection.reason}}).Increment();
}

void Metrics::HandshakeFailed(const FailedHandshake& handshake) {
  families_->handshakes_failed.Add({{"reason", handshake.reason}}).Increment();
}

void Metrics::ReaderRefused(const RefusedReader& /*reader*/) {
  families_->readers_refused_all.Increment();
}

MetricsSnapshot Metrics::Collect(Gauges gauges) const {
  const auto now = std::chrono::steady_clock::now();
  const auto uptime = std::chrono::floor<std::chrono::microseconds>(now - start_);
  MetricsSnapshot snapshot = {.version = version_,
                              .start_unix_seconds = start_unix_seconds_,
                              .uptime_seconds = std::chrono::duration<double>(uptime).count(),
                              .gauges = std::move(gauges),
                              .families = families_->registry.Collect()};
  const auto append = [&all = snapshot.families](std::vector<prometheus::MetricFamily> families) {
    std::move(families.begin(), families.end(), std::back_inserter(all));
  };
  append(CollectGauges(snapshot.gauges));
  append(clients_.Collect(now));
  std::sort(snapshot.families.begin(), snapshot.families.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return snapshot;
}

const std::vector<prometheus::ClientMetric>& MetricsSnapshot::SeriesOf(
    absl::string_view name) const {
  static const std::vector<prometheus::ClientMetric> kNone;
  const auto family = std::lower_bound(
      families.begin(), families.end(), name,
      [](const prometheus::MetricFamily& a, absl::string_view b) { return a.name < b; });
  return family != families.end() && family->name == name ? family->metric : kNone;
}

std::string MetricsSnapshot::Text() const {
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace stowage
