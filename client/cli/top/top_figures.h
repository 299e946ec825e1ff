// What `stowage top` shows, from one scrape of a server or two. Pure.
#ifndef STOWAGE_CLIENT_CLI_TOP_TOP_FIGURES_H_
#define STOWAGE_CLIENT_CLI_TOP_TOP_FIGURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/top/metrics_text.h"

namespace stowage {

// One look at a server.
struct Scrape {
  MetricSamples samples;
  double unix_seconds = 0;     // when, by this machine's clock: for uptimes
  double elapsed_seconds = 0;  // the same on a clock that never jumps: for rates
};

// Seconds below which a half, nine tenths and 99 of 100 are.
struct Quantiles {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

using Counts = std::map<std::string, double>;  // by label
double SumOf(const Counts& counts);

struct CallFigures {
  double calls = 0;  // that ended
  Counts errors;     // of them, by gRPC's code; only codes that there were
  std::optional<Quantiles> latency;
};

// What was counted in so many seconds.
struct Window {
  double seconds = 0;
  double cpu_seconds = 0;
  std::map<std::string, CallFigures> calls;  // by method; all that were ever called
  Counts answers;                            // by source
  Counts rejected;                           // by reason
  Counts evictions;                          // by cache
  Counts store_failures;                     // by reason
  std::optional<Quantiles> queue_wait;

  // Answers that needed no solve of their own, as a share; nullopt when there were none.
  std::optional<double> HitRatio() const;
  // 0 in no time.
  double PerSecond(double count) const { return seconds > 0 ? count / seconds : 0; }
};

struct CacheFigures {
  std::string tier;
  int64_t bytes = 0;
  int64_t limit_bytes = 0;  // 0: there is no such cache
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
  double unix_seconds = 0;  // of the look
  double uptime_seconds = 0;
  int64_t resident_bytes = 0;
  int64_t open_files = 0;
  int64_t solves_waiting = 0;
  int64_t solves_waiting_limit = 0;
  int64_t solves_running = 0;
  int64_t solves_running_limit = 0;
  int64_t solve_bytes = 0;
  int64_t solve_limit_bytes = 0;
  int64_t questions = 0;                     // in flight
  std::map<std::string, int64_t> in_flight;  // calls, by method
  std::vector<CacheFigures> caches;
  std::vector<RunningFigures> running;  // by thread
  Window since_start;
  std::optional<Window> last;  // since the look before; nullopt without one of this process
};

// Whether the process that was seen before is another one than now: it began at another time, or
// something counted fell.
bool Restarted(const Scrape& before, const Scrape& now);

// `before`, unless it is null, is an earlier look at the same process. What the server does not say
// is 0.
TopFigures FiguresOf(const Scrape& now, const Scrape* before);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_TOP_FIGURES_H_
