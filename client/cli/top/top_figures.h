// The figures of `stowage top`, computed from one scrape of a server or from two. Pure.
#ifndef STOWAGE_CLIENT_CLI_TOP_TOP_FIGURES_H_
#define STOWAGE_CLIENT_CLI_TOP_TOP_FIGURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/top/metrics_text.h"

namespace stowage {

// The metrics of a server at one moment.
struct Scrape {
  MetricSamples samples;
  double unix_seconds = 0;     // on this machine's wall clock: for uptimes
  double elapsed_seconds = 0;  // on a monotonic clock: for rates
};

// Of durations, in seconds.
struct Quantiles {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

using Counts = std::map<std::string, double>;  // by label
double SumOf(const Counts& counts);

struct CallFigures {
  double calls = 0;  // that ended
  Counts errors;     // by gRPC code; only codes that occurred
  std::optional<Quantiles> latency;
};

struct ClientFigures {
  double calls = 0;  // that ended
  double refused = 0;
  double solve_seconds = 0;  // of solver threads
};

// Counts of an interval.
struct Window {
  double seconds = 0;
  double cpu_seconds = 0;
  std::map<std::string, CallFigures> calls;      // by method; all methods ever called
  std::map<std::string, ClientFigures> clients;  // by name; the busiest, the others as one
  Counts answers;                                // by source
  Counts rejected;                               // by reason
  Counts evictions;                              // by cache
  Counts store_failures;                         // by reason
  std::optional<Quantiles> queue_wait;

  // The share of answers that did not need a solve of their own; nullopt without answers.
  std::optional<double> HitRatio() const;
  // 0 for an interval of 0 s.
  double PerSecond(double count) const { return seconds > 0 ? count / seconds : 0; }
};

struct CacheFigures {
  std::string tier;
  int64_t bytes = 0;
  int64_t limit_bytes = 0;  // 0: the server has no such cache
  int64_t entries = 0;
};

struct RunningFigures {
  int thread = 0;
  std::string solver;
  int stages = 0;
  double seconds = 0;
  double fraction = 0;  // 0..1
};

struct TopFigures {
  std::string version;
  bool ready = false;
  double unix_seconds = 0;  // of the scrape
  double uptime_seconds = 0;
  int64_t resident_bytes = 0;
  int64_t open_files = 0;
  int64_t solves_waiting = 0;
  int64_t solves_waiting_limit = 0;
  int64_t solves_running = 0;
  int64_t solves_running_limit = 0;
  int64_t solve_bytes = 0;
  int64_t solve_limit_bytes = 0;
  int64_t requests_in_flight = 0;                  // equal ones count once
  std::map<std::string, int64_t> calls_in_flight;  // by method
  std::vector<CacheFigures> caches;
  std::vector<RunningFigures> running;  // by thread
  Window since_start;
  std::optional<Window> last;  // since the previous scrape of this process; nullopt without one
};

// Whether the two scrapes are of different processes: the start times differ, or a counter
// decreased.
bool Restarted(const Scrape& before, const Scrape& now);

// `before`, unless it is null, is an earlier scrape of the same process. A missing metric counts as
// 0.
TopFigures FiguresOf(const Scrape& now, const Scrape* before);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_TOP_FIGURES_H_
