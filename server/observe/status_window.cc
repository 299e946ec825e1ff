#include "server/observe/status_window.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace stowage {
namespace {

using prometheus::ClientMetric;

std::string LabelOf(const ClientMetric& series, const char* label) {
  for (const ClientMetric::Label& each : series.label) {
    if (each.name == label) return each.value;
  }
  return "";
}

// Of all counters of that name, summed by the values of a label.
Counts CountsBy(const char* label, const char* name, const MetricsSnapshot& snapshot) {
  Counts counts;
  for (const ClientMetric& series : snapshot.SeriesOf(name)) {
    counts[LabelOf(series, label)] += series.counter.value;
  }
  return counts;
}

Buckets BucketsOf(const char* name, const MetricsSnapshot& snapshot) {
  const std::vector<ClientMetric>& series = snapshot.SeriesOf(name);
  return series.empty() ? Buckets() : series.front().histogram.bucket;
}

// A default one where there is none.
template <typename Value>
Value Of(const std::map<std::string, Value>& values, const std::string& name) {
  const auto found = values.find(name);
  return found != values.end() ? found->second : Value();
}

int64_t Whole(double count) { return static_cast<int64_t>(std::clamp(count, 0.0, 1e18)); }

// A client's counters begin at 0 again where it gets its label back, hence no decrease.
double IncreaseOf(const std::string& name, const Counts& before, const Counts& now) {
  return std::max(0.0, Of(now, name) - Of(before, name));
}

double SumOf(const Counts& counts) {
  double sum = 0;
  for (const auto& [name, count] : counts) sum += count;
  return sum;
}

using NamedCounts = google::protobuf::RepeatedPtrField<v1::NamedCount>;

void FillIncreases(const Counts& before, const Counts& now, NamedCounts* counts) {
  for (const auto& [name, count] : now) {
    v1::NamedCount* const named = counts->Add();
    named->set_name(name);
    named->set_count(Whole(IncreaseOf(name, before, now)));
  }
}

// All buckets of a process have the same bounds.
Buckets IncreaseOf(const Buckets& before, const Buckets& now) {
  Buckets increase = now;
  for (size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
    increase[i].cumulative_count -=
        std::min(before[i].cumulative_count, increase[i].cumulative_count);
  }
  return increase;
}

std::optional<v1::Quantiles> QuantilesBetween(const Buckets& before, const Buckets& now) {
  const Buckets increase = IncreaseOf(before, now);
  const std::optional<double> median = Quantile(increase, 0.5);
  if (!median.has_value()) return std::nullopt;
  v1::Quantiles quantiles;
  quantiles.set_p50(*median);
  quantiles.set_p90(*Quantile(increase, 0.9));
  quantiles.set_p99(*Quantile(increase, 0.99));
  return quantiles;
}

void FillCalls(const Totals& before, const Totals& now, v1::StatusWindow* window) {
  for (const auto& [method, ended] : now.ended) {
    const Counts ended_before = Of(before.ended, method);
    v1::MethodCalls* const calls = window->add_calls();
    calls->set_method(method);
    double all = 0;
    for (const auto& [code, count] : ended) {
      const double increase = IncreaseOf(code, ended_before, ended);
      all += increase;
      if (code == "OK" || increase <= 0) continue;
      v1::NamedCount* const errors = calls->add_errors();
      errors->set_name(code);
      errors->set_count(Whole(increase));
    }
    calls->set_calls(Whole(all));
    const auto latency = QuantilesBetween(Of(before.latency, method), Of(now.latency, method));
    if (latency.has_value()) *calls->mutable_latency_seconds() = *latency;
  }
}

void FillClients(const Totals& before, const Totals& now, v1::StatusWindow* window) {
  for (const auto& [name, counts] : now.clients) {
    const Counts counts_before = Of(before.clients, name);
    v1::ClientCalls* const client = window->add_clients();
    client->set_client(name);
    client->set_calls(Whole(IncreaseOf("calls", counts_before, counts)));
    client->set_refused(Whole(IncreaseOf("refused", counts_before, counts)));
    client->set_solve_seconds(IncreaseOf("solve", counts_before, counts));
  }
}

void FillAnswers(const Totals& before, const Totals& now, v1::StatusWindow* window) {
  FillIncreases(before.answers, now.answers, window->mutable_answers());
  const double all = SumOf(now.answers) - SumOf(before.answers);
  if (all > 0) window->set_hit_ratio(1 - IncreaseOf("solved", before.answers, now.answers) / all);
}

void FillLookups(const Totals& before, const Totals& now, v1::StatusWindow* window) {
  for (const auto& [tier, counts] : now.lookups) {
    const Counts counts_before = Of(before.lookups, tier);
    v1::CacheLookups* const lookups = window->add_lookups();
    lookups->set_name(tier);
    lookups->set_hits(Whole(IncreaseOf("hit", counts_before, counts)));
    lookups->set_misses(Whole(IncreaseOf("miss", counts_before, counts)));
    lookups->set_failed(Whole(IncreaseOf("failed", counts_before, counts)));
  }
}

void FillExecutions(const Totals& before, const Totals& now, v1::StatusWindow* window) {
  v1::ExecutionErrors* const errors = window->mutable_executions();
  const Buckets reports = IncreaseOf(before.time_error, now.time_error);
  if (!reports.empty()) {
    errors->set_reports(static_cast<int64_t>(reports.back().cumulative_count));
  }
  const auto time = QuantilesBetween(before.time_error, now.time_error);
  if (time.has_value()) *errors->mutable_time_error() = *time;
  const auto peak = QuantilesBetween(before.peak_error, now.peak_error);
  if (peak.has_value()) *errors->mutable_peak_error() = *peak;
}

}  // namespace

Totals TotalsOf(const MetricsSnapshot& snapshot) {
  Totals totals;
  totals.uptime_seconds = snapshot.uptime_seconds;
  totals.cpu_seconds = snapshot.gauges.process.cpu_seconds;
  for (const ClientMetric& series : snapshot.SeriesOf("grpc_server_handled_total")) {
    totals.ended[LabelOf(series, "grpc_method")][LabelOf(series, "grpc_code")] +=
        series.counter.value;
  }
  for (const ClientMetric& series : snapshot.SeriesOf("grpc_server_handling_seconds")) {
    totals.latency[LabelOf(series, "grpc_method")] = series.histogram.bucket;
  }
  for (const auto& [counter, name] : {std::pair{"calls", "stowage_client_calls_total"},
                                      {"refused", "stowage_client_refused_total"},
                                      {"solve", "stowage_client_solve_seconds_total"}}) {
    for (const auto& [client, count] : CountsBy("client", name, snapshot)) {
      totals.clients[client][counter] = count;
    }
  }
  totals.answers = CountsBy("source", "stowage_answers_total", snapshot);
  for (const ClientMetric& series : snapshot.SeriesOf("stowage_cache_tier_lookups_total")) {
    totals.lookups[LabelOf(series, "tier")][LabelOf(series, "result")] = series.counter.value;
  }
  totals.rejected = CountsBy("reason", "stowage_rejected_total", snapshot);
  totals.evictions = CountsBy("tier", "stowage_cache_evictions_total", snapshot);
  totals.store_failures = CountsBy("reason", "stowage_store_failures_total", snapshot);
  totals.queue = BucketsOf("stowage_queue_seconds", snapshot);
  totals.time_error = BucketsOf("stowage_prediction_time_error_ratio", snapshot);
  totals.peak_error = BucketsOf("stowage_prediction_peak_error_ratio", snapshot);
  return totals;
}

Counts CallsBegun(const MetricsSnapshot& snapshot) {
  return CountsBy("grpc_method", "grpc_server_started_total", snapshot);
}

v1::StatusWindow WindowBetween(const Totals& before, const Totals& now) {
  v1::StatusWindow window;
  window.set_seconds(now.uptime_seconds - before.uptime_seconds);
  window.set_cpu_seconds(std::max(0.0, now.cpu_seconds - before.cpu_seconds));
  FillCalls(before, now, &window);
  FillClients(before, now, &window);
  FillAnswers(before, now, &window);
  FillLookups(before, now, &window);
  FillIncreases(before.rejected, now.rejected, window.mutable_rejected());
  FillIncreases(before.evictions, now.evictions, window.mutable_evictions());
  FillIncreases(before.store_failures, now.store_failures, window.mutable_store_failures());
  const auto queue = QuantilesBetween(before.queue, now.queue);
  if (queue.has_value()) *window.mutable_queue_seconds() = *queue;
  FillExecutions(before, now, &window);
  return window;
}

// With rank = share * total, the bucket is the first whose cumulative count reaches the rank, and
// the quantile is lower + (upper - lower) * (rank - count below) / (count inside).
std::optional<double> Quantile(const Buckets& buckets, double share) {
  if (buckets.size() < 2 || buckets.back().cumulative_count == 0) return std::nullopt;
  const auto count = [](const ClientMetric::Bucket& bucket) {
    return static_cast<double>(bucket.cumulative_count);
  };
  const double rank = share * count(buckets.back());
  const auto last = buckets.end() - 1;
  const auto bucket =
      std::find_if(buckets.begin(), last, [&](const auto& each) { return count(each) >= rank; });
  if (bucket == last) return (last - 1)->upper_bound;
  const ClientMetric::Bucket below =
      bucket != buckets.begin() ? *(bucket - 1) : ClientMetric::Bucket{};
  const double inside = count(*bucket) - count(below);
  if (!(inside > 0)) return bucket->upper_bound;  // rank 0 and empty buckets so far
  return below.upper_bound +
         (bucket->upper_bound - below.upper_bound) * (rank - count(below)) / inside;
}

}  // namespace stowage
