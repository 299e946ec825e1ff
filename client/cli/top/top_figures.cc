#include "client/cli/top/top_figures.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "client/cli/top/histogram.h"

namespace stowage {
namespace {

constexpr double kMax = 1e18;  // clamps values before the conversion to int64_t

double Value(const MetricSamples& samples, const std::string& name,
             const MetricLabels& labels = {}) {
  const double value = MetricValue(samples, name, labels).value_or(0);
  return std::isfinite(value) ? value : 0;
}

int64_t Whole(const MetricSamples& samples, const std::string& name,
              const MetricLabels& labels = {}) {
  return static_cast<int64_t>(std::clamp(Value(samples, name, labels), -kMax, kMax));
}

// The difference of two scrapes of one process. An empty first one stands for its start, when all
// counters were 0.
class Difference {
 public:
  Difference(const MetricSamples& before, const MetricSamples& now) : before_(before), now_(now) {}

  double Increase(const std::string& name, const MetricLabels& labels = {}) const {
    return std::max(0.0, Value(now_, name, labels) - Value(before_, name, labels));
  }

  // The increase of every series of `name`, summed by the values of `label`.
  Counts IncreaseBy(const std::string& name, const std::string& label) const {
    Counts counts;
    for (const MetricSample& sample : SamplesOf(now_, name)) {
      counts[LabelOf(sample, label)] += Increase(name, sample.labels);
    }
    return counts;
  }

  std::optional<Quantiles> QuantilesOf(const std::string& name,
                                       const MetricLabels& labels = {}) const {
    const Histogram histogram =
        Between(HistogramOf(before_, name, labels), HistogramOf(now_, name, labels));
    const std::optional<double> median = HistogramQuantile(histogram, 0.5);
    if (!median.has_value()) return std::nullopt;
    return Quantiles{*median, *HistogramQuantile(histogram, 0.9),
                     *HistogramQuantile(histogram, 0.99)};
  }

  // By method. The counter of started calls and the histogram have a series for each method, the
  // counter of handled calls one for each method and code.
  std::map<std::string, CallFigures> Calls() const {
    std::map<std::string, CallFigures> calls;
    for (const MetricSample& started : SamplesOf(now_, "grpc_server_started_total")) {
      CallFigures& figures = calls[LabelOf(started, "grpc_method")];
      figures.latency = QuantilesOf("grpc_server_handling_seconds", started.labels);
    }
    for (const MetricSample& handled : SamplesOf(now_, "grpc_server_handled_total")) {
      CallFigures& figures = calls[LabelOf(handled, "grpc_method")];
      const double count = Increase("grpc_server_handled_total", handled.labels);
      const std::string code = LabelOf(handled, "grpc_code");
      figures.calls += count;
      if (code != "OK" && count > 0) figures.errors[code] += count;
    }
    return calls;
  }

  std::map<std::string, ClientFigures> Clients() const {
    std::map<std::string, ClientFigures> clients;
    for (const MetricSample& sample : SamplesOf(now_, "stowage_client_calls_total")) {
      clients[LabelOf(sample, "client")] = {
          .calls = Increase("stowage_client_calls_total", sample.labels),
          .refused = Increase("stowage_client_refused_total", sample.labels),
          .solve_seconds = Increase("stowage_client_solve_seconds_total", sample.labels)};
    }
    return clients;
  }

  Window WindowOf(double seconds) const {
    Window window;
    window.seconds = seconds;
    window.cpu_seconds = Increase("process_cpu_seconds_total");
    window.calls = Calls();
    window.clients = Clients();
    window.answers = IncreaseBy("stowage_answers_total", "source");
    window.rejected = IncreaseBy("stowage_rejected_total", "reason");
    window.evictions = IncreaseBy("stowage_cache_evictions_total", "tier");
    window.store_failures = IncreaseBy("stowage_store_failures_total", "reason");
    window.queue_wait = QuantilesOf("stowage_queue_seconds");
    return window;
  }

 private:
  const MetricSamples& before_;
  const MetricSamples& now_;
};

std::vector<CacheFigures> Caches(const MetricSamples& samples) {
  std::vector<CacheFigures> caches;
  for (const char* tier : {"memory", "responses", "disk"}) {
    const MetricLabels labels = {{"tier", tier}};
    caches.push_back({.tier = tier,
                      .bytes = Whole(samples, "stowage_cache_bytes", labels),
                      .limit_bytes = Whole(samples, "stowage_cache_limit_bytes", labels),
                      .entries = Whole(samples, "stowage_cache_entries", labels)});
  }
  return caches;
}

std::vector<RunningFigures> Running(const MetricSamples& samples) {
  std::vector<RunningFigures> running;
  for (const MetricSample& sample : SamplesOf(samples, "stowage_running_solve_seconds")) {
    RunningFigures solve;
    if (!absl::SimpleAtoi(LabelOf(sample, "thread"), &solve.thread)) continue;
    solve.solver = LabelOf(sample, "solver");
    solve.seconds = sample.value;
    solve.stages = static_cast<int>(std::min(
        Whole(samples, "stowage_running_solve_stages", sample.labels), int64_t{INT32_MAX}));
    solve.fraction =
        std::clamp(Value(samples, "stowage_running_solve_progress_ratio", sample.labels), 0.0, 1.0);
    running.push_back(solve);
  }
  std::sort(running.begin(), running.end(),
            [](const auto& a, const auto& b) { return a.thread < b.thread; });
  return running;
}

// Calls that have started and not ended, by method.
std::map<std::string, int64_t> InFlight(const Counts& started, const Window& since_start) {
  std::map<std::string, int64_t> in_flight;
  for (const auto& [method, count] : started) {
    // The server does not read the two counters atomically.
    const double open = std::max(0.0, count - since_start.calls.at(method).calls);
    in_flight[method] = static_cast<int64_t>(std::min(open, kMax));
  }
  return in_flight;
}

// Whether the name is that of a counter or of a histogram's series, which never decrease.
bool IsCounter(const std::string& name) {
  return absl::EndsWith(name, "_total") || absl::EndsWith(name, "_count") ||
         absl::EndsWith(name, "_bucket");
}

}  // namespace

double SumOf(const Counts& counts) {
  double sum = 0;
  for (const auto& [label, count] : counts) sum += count;
  return sum;
}

std::optional<double> Window::HitRatio() const {
  const double all = SumOf(answers);
  if (!(all > 0)) return std::nullopt;
  const auto solved = answers.find("solved");
  return 1 - (solved != answers.end() ? solved->second : 0) / all;
}

bool Restarted(const Scrape& before, const Scrape& now) {
  constexpr const char* kStart = "process_start_time_seconds";
  if (Value(before.samples, kStart) != Value(now.samples, kStart)) return true;
  for (const auto& [name, series] : before.samples) {
    if (!IsCounter(name)) continue;
    for (const MetricSample& sample : series) {
      // A client that is no longer among the busiest has no series any more.
      const bool may_end = absl::StartsWith(name, "stowage_client_");
      if (may_end && !MetricValue(now.samples, name, sample.labels).has_value()) continue;
      if (Value(now.samples, name, sample.labels) < sample.value) return true;
    }
  }
  return false;
}

TopFigures FiguresOf(const Scrape& now, const Scrape* before) {
  const MetricSamples& samples = now.samples;
  TopFigures figures;
  const std::vector<MetricSample>& build = SamplesOf(samples, "stowage_build_info");
  if (!build.empty()) figures.version = LabelOf(build.front(), "version");
  figures.ready = Value(samples, "stowage_ready") == 1;
  figures.unix_seconds = now.unix_seconds;
  // The start time is by the server's clock, which may be ahead of this machine's.
  figures.uptime_seconds =
      std::max(0.0, now.unix_seconds - Value(samples, "process_start_time_seconds"));
  figures.resident_bytes = Whole(samples, "process_resident_memory_bytes");
  figures.open_files = Whole(samples, "process_open_fds");
  figures.solves_waiting = Whole(samples, "stowage_solves_waiting");
  figures.solves_waiting_limit = Whole(samples, "stowage_solves_waiting_limit");
  figures.solves_running = Whole(samples, "stowage_solves_running");
  figures.solves_running_limit = Whole(samples, "stowage_solves_running_limit");
  figures.solve_bytes = Whole(samples, "stowage_solve_memory_bytes");
  figures.solve_limit_bytes = Whole(samples, "stowage_solve_memory_limit_bytes");
  figures.requests_in_flight = Whole(samples, "stowage_requests_in_flight");
  figures.caches = Caches(samples);
  figures.running = Running(samples);
  // All counters of a process begin at 0, so the figures since its start are those of an interval
  // that begins with an empty scrape.
  const MetricSamples nothing;
  const Difference since_start(nothing, samples);
  figures.since_start = since_start.WindowOf(figures.uptime_seconds);
  figures.calls_in_flight = InFlight(
      since_start.IncreaseBy("grpc_server_started_total", "grpc_method"), figures.since_start);
  if (before != nullptr) {
    figures.last = Difference(before->samples, samples)
                       .WindowOf(now.elapsed_seconds - before->elapsed_seconds);
  }
  return figures;
}

}  // namespace stowage
