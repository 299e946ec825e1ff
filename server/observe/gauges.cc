// Families are created for one scrape and discarded: the values belong to the engine, the caches
// and the kernel, and a copy that lives between scrapes could only be out of date.
#include "server/observe/gauges.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace stowage {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using Labels = prometheus::Labels;

double CountEntries(const char* directory) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(directory, error);
  return static_cast<double>(std::distance(begin(entries), end(entries)));
}

// The registry of one scrape.
class Scrape {
 public:
  void AddSolves(const Gauges& gauges);
  void AddRunningSolves(const std::vector<RunningSolve>& running);
  void AddCaches(const Gauges& gauges);
  void AddTiers(const std::vector<TierGauges>& tiers);
  void AddLeases(const LeaseStats& leases);
  void AddSpans(const SpanCounts& spans);
  void AddProcess(const ProcessStats& process);
  void AddGauge(const char* name, const char* help, double value) {
    MakeGauge(name, help).Add({}).Set(value);
  }

  void AddCounter(const char* name, const char* help, double value) {
    MakeCounter(name, help).Add({}).Increment(value);
  }

  std::vector<prometheus::MetricFamily> Collect() const { return registry_.Collect(); }

 private:
  Family<Gauge>& MakeGauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
  }
  Family<Counter>& MakeCounter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
  }
  Family<Histogram>& MakeHistogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_);
  }

  prometheus::Registry registry_;
};

template <typename Integer>
double AsDouble(Integer value) {
  return static_cast<double>(value);
}

void Scrape::AddSolves(const Gauges& gauges) {
  const WorkQueue::Stats& solves = gauges.engine.solves;
  AddGauge("stowage_solves_waiting", "Solves in the queue.", AsDouble(solves.waiting));
  AddGauge("stowage_solves_waiting_limit", "Most solves that may wait.",
           AsDouble(gauges.engine.queue_length));
  AddGauge("stowage_solves_running", "Running solves.", AsDouble(solves.running));
  AddGauge("stowage_solves_running_limit", "Solver threads.", AsDouble(gauges.engine.threads));
  AddGauge("stowage_requests_in_flight",
           "Requests that wait or are being solved; equal ones count once.",
           AsDouble(gauges.engine.requests));
  AddGauge("stowage_solve_memory_bytes", "Memory that running solves may take, in bytes.",
           AsDouble(solves.running_bytes));
  AddGauge("stowage_solve_memory_limit_bytes", "Memory set aside for all solves, in bytes.",
           AsDouble(gauges.solve_limit_bytes));
  AddGauge("stowage_request_memory_limit_bytes", "Memory set aside for requests, in bytes.",
           AsDouble(gauges.request_limit_bytes));
}

// One series a thread at any time, whatever it solves.
void Scrape::AddRunningSolves(const std::vector<RunningSolve>& running) {
  Family<Gauge>& seconds =
      MakeGauge("stowage_running_solve_seconds", "Time since a running solve began, in seconds.");
  Family<Gauge>& progress = MakeGauge("stowage_running_solve_progress_ratio",
                                      "Completed share of a running solve, 0 to 1.");
  Family<Gauge>& stages =
      MakeGauge("stowage_running_solve_stages", "Stages of the chain of a running solve.");
  for (const RunningSolve& solve : running) {
    const Labels labels = {{"thread", std::to_string(solve.thread)}, {"solver", solve.solver}};
    seconds.Add(labels).Set(solve.seconds);
    progress.Add(labels).Set(solve.fraction);
    stages.Add(labels).Set(AsDouble(solve.stages));
  }
}

void Scrape::AddCaches(const Gauges& gauges) {
  Family<Gauge>& bytes = MakeGauge("stowage_cache_bytes", "Size of the cached entries, in bytes.");
  Family<Gauge>& limits =
      MakeGauge("stowage_cache_limit_bytes", "Size limit of the cache, in bytes.");
  Family<Gauge>& entries = MakeGauge("stowage_cache_entries", "Cached entries.");
  Family<Counter>& evictions =
      MakeCounter("stowage_cache_evictions_total", "Entries evicted to make room.");
  const auto add = [&](const std::string& tier, const CacheStats& stats, int64_t limit_bytes) {
    const Labels labels = {{"tier", tier}};
    bytes.Add(labels).Set(AsDouble(stats.bytes));
    limits.Add(labels).Set(AsDouble(limit_bytes));
    entries.Add(labels).Set(AsDouble(stats.entries));
    evictions.Add(labels).Increment(AsDouble(stats.evictions));
  };
  add("memory", gauges.memory, gauges.answers_limit_bytes());
  add("responses", gauges.responses, gauges.responses_limit_bytes());
  for (const TierGauges& tier : gauges.tiers) {
    add(tier.stats.name, tier.stats.stored, tier.limit_bytes);
  }
}

void AddTimes(const ReadTimes& times, Histogram& histogram) {
  histogram.ObserveMultiple({times.counts.begin(), times.counts.end()}, times.seconds);
}

void Scrape::AddTiers(const std::vector<TierGauges>& tiers) {
  Family<Counter>& lookups = MakeCounter("stowage_cache_tier_lookups_total",
                                         "Look-ups in a tier below memory, by result.");
  Family<Counter>& skipped =
      MakeCounter("stowage_cache_tier_skipped_reads_total",
                  "Reads of a tier that were not made, because it is left alone.");
  Family<Counter>& dropped =
      MakeCounter("stowage_cache_tier_dropped_writes_total",
                  "Answers not written to a tier, because it is left alone or too many wait.");
  Family<Histogram>& reads =
      MakeHistogram("stowage_cache_tier_read_seconds",
                    "Time of a read of a tier, in seconds; a look-up makes one or two.");
  Family<Gauge>& waiting =
      MakeGauge("stowage_cache_tier_waiting_writes", "Answers that wait to be written to a tier.");
  Family<Gauge>& open = MakeGauge("stowage_cache_tier_breaker_open",
                                  "1 while a tier is left alone, because it keeps failing.");
  Family<Counter>& opened = MakeCounter("stowage_cache_tier_breaker_opened_total",
                                        "How often the server began to leave a tier alone.");
  for (const auto& [stats, guard, in_use, limit_bytes] : tiers) {
    const Labels labels = {{"tier", stats.name}};
    const auto looked_up = [&lookups, &tier = stats.name](const char* result, int64_t count) {
      lookups.Add({{"tier", tier}, {"result", result}}).Increment(AsDouble(count));
    };
    looked_up("hit", stats.hits);
    looked_up("miss", stats.misses);
    looked_up("failed", stats.failures);
    skipped.Add(labels).Increment(AsDouble(guard.skipped_reads));
    dropped.Add(labels).Increment(AsDouble(guard.dropped_writes));
    AddTimes(guard.read_times,
             reads.Add(labels, Histogram::BucketBoundaries(ReadTimes::kBounds.begin(),
                                                           ReadTimes::kBounds.end())));
    waiting.Add(labels).Set(AsDouble(guard.waiting_writes));
    open.Add(labels).Set(guard.is_open ? 1 : 0);
    opened.Add(labels).Increment(AsDouble(guard.opened));
  }
}

void Scrape::AddLeases(const LeaseStats& leases) {
  Family<Counter>& events =
      MakeCounter("stowage_solve_leases_total",
                  "Leases of solves in the tier that servers share, by what became of them.");
  const auto add = [&events](const char* event, int64_t count) {
    events.Add({{"event", event}}).Increment(AsDouble(count));
  };
  add("taken", leases.taken);
  add("taken_over", leases.taken_over);
  add("waited", leases.waited);
  add("lost", leases.lost);
  add("refused", leases.refused);
  add("failed", leases.failures);
}

void Scrape::AddSpans(const SpanCounts& spans) {
  Family<Counter>& outcomes =
      MakeCounter("stowage_trace_spans_total", "Spans of traces, by what became of them.");
  const auto add = [&outcomes](const char* outcome, int64_t count) {
    outcomes.Add({{"outcome", outcome}}).Increment(AsDouble(count));
  };
  add("sent", spans.sent);
  add("dropped", spans.dropped);
  add("failed", spans.failed);
}

// Under the names that all Prometheus clients use.
void Scrape::AddProcess(const ProcessStats& process) {
  AddGauge("process_resident_memory_bytes", "Resident memory of the process, in bytes.",
           process.resident_bytes);
  AddGauge("process_virtual_memory_bytes", "Address space of the process, in bytes.",
           process.virtual_bytes);
  AddGauge("process_open_fds", "Open files and sockets.", process.open_files);
  AddGauge("process_max_fds", "Most files and sockets that may be open.", process.max_files);
  AddGauge("process_threads", "Threads of the process.", process.threads);
  MakeCounter("process_cpu_seconds_total", "CPU time of the process, in seconds.")
      .Add({})
      .Increment(process.cpu_seconds);
}

}  // namespace

ProcessStats ReadProcess() {
  ProcessStats process;
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
    const auto page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
    process.resident_bytes = resident * page_bytes;
    process.virtual_bytes = total * page_bytes;
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  process.max_files = static_cast<double>(files.rlim_cur);
  process.open_files = CountEntries("/proc/self/fd");
  process.threads = CountEntries("/proc/self/task");
  return process;
}

std::vector<prometheus::MetricFamily> CollectGauges(const Gauges& gauges) {
  Scrape scrape;
  scrape.AddGauge("stowage_ready",
                  "1 while new calls should come here, 0 while it starts or stops.",
                  gauges.ready ? 1 : 0);
  scrape.AddSolves(gauges);
  scrape.AddRunningSolves(gauges.engine.running);
  scrape.AddCaches(gauges);
  scrape.AddTiers(gauges.tiers);
  scrape.AddLeases(gauges.leases);
  scrape.AddSpans(gauges.spans);
  if (gauges.certificate_end_seconds.has_value()) {
    scrape.AddGauge("stowage_tls_certificate_end_seconds",
                    "When the server's certificate expires, in seconds since 1970.",
                    AsDouble(*gauges.certificate_end_seconds));
  }
  scrape.AddCounter("stowage_log_lines_suppressed_total",
                    "Log lines about calls that exceeded --client-log-rate.",
                    AsDouble(gauges.suppressed_lines));
  scrape.AddCounter("stowage_log_lines_dropped_total",
                    "Log lines that were lost because nobody read them.",
                    AsDouble(gauges.dropped_lines));
  scrape.AddProcess(gauges.process);
  return scrape.Collect();
}

}  // namespace stowage
