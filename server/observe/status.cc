#include "server/observe/status.h"

#include <cstdint>
#include <iterator>
#include <string>

namespace stowage {
namespace {

constexpr double kPart = 16;
constexpr double kMaxAgeSeconds = 2 * 86400;
constexpr double kRecentSeconds[] = {10, 60, 300};
// Moments are whole microseconds, and so are the texts that name them.
constexpr double kHalfAMicrosecond = 0.5e-6;

void FillCache(const std::string& name, const CacheStats& stats, int64_t limit_bytes,
               v1::CacheStatus* cache) {
  cache->set_name(name);
  cache->set_in_use(limit_bytes > 0);
  cache->set_entries(stats.entries);
  cache->set_bytes(stats.bytes);
  cache->set_limit_bytes(limit_bytes);
}

void FillSolves(const EngineStats& engine, int64_t limit_bytes, v1::ServerStatus* status) {
  v1::SolveCapacity* const solves = status->mutable_solves();
  solves->set_waiting(static_cast<int64_t>(engine.solves.waiting));
  solves->set_waiting_limit(static_cast<int64_t>(engine.queue_length));
  solves->set_running(static_cast<int64_t>(engine.solves.running));
  solves->set_running_limit(engine.threads);
  solves->set_bytes(engine.solves.running_bytes);
  solves->set_limit_bytes(limit_bytes);
  for (const RunningSolve& solve : engine.running) {
    v1::SolveProgress* const running = status->add_running();
    running->set_thread(solve.thread);
    running->set_solver(solve.solver);
    running->set_stages(solve.stages);
    running->set_seconds(solve.seconds);
    running->set_fraction(solve.fraction);
  }
}

// Calls that have begun and not ended. The two counters are not read at one instant.
void FillCallsInFlight(const MetricsSnapshot& now, const Totals& totals, v1::ServerStatus* status) {
  for (const auto& [method, began] : CallsBegun(now)) {
    double open = began;
    for (const auto& [code, count] : totals.ended.at(method)) open -= count;
    v1::NamedCount* const calls = status->add_calls_in_flight();
    calls->set_name(method);
    calls->set_count(open > 0 ? static_cast<int64_t>(open) : 0);
  }
}

v1::ServerStatus StateAt(const MetricsSnapshot& now, const Totals& totals) {
  const Gauges& gauges = now.gauges;
  v1::ServerStatus status;
  status.set_version(now.version);
  status.set_ready(gauges.ready);
  status.set_start_unix_seconds(now.start_unix_seconds);
  status.set_uptime_seconds(now.uptime_seconds);
  status.set_resident_bytes(static_cast<int64_t>(gauges.process.resident_bytes));
  status.set_open_files(static_cast<int64_t>(gauges.process.open_files));
  FillCallsInFlight(now, totals, &status);
  status.set_requests_in_flight(static_cast<int64_t>(gauges.engine.requests));
  FillSolves(gauges.engine, gauges.solve_limit_bytes, &status);
  FillCache("memory", gauges.memory, gauges.answers_limit_bytes(), status.add_caches());
  FillCache("responses", gauges.responses, gauges.responses_limit_bytes(), status.add_caches());
  for (const TierGauges& tier : gauges.tiers) {
    v1::CacheStatus* const cache = status.add_caches();
    FillCache(tier.stats.name, tier.stats.stored, tier.limit_bytes, cache);
    cache->set_in_use(tier.in_use);
  }
  return status;
}

}  // namespace

void StatusHistory::Remember(const MetricsSnapshot& now) {
  const Totals totals = TotalsOf(now);
  MutexLock lock(mutex_);
  Add(totals);
}

v1::ServerStatus StatusHistory::Look(const MetricsSnapshot& now,
                                     std::optional<double> since_seconds) {
  const Totals totals = TotalsOf(now);
  v1::ServerStatus status = StateAt(now, totals);
  *status.mutable_since_start() = WindowBetween(Totals(), totals);
  MutexLock lock(mutex_);
  Add(totals);
  if (since_seconds.has_value() && *since_seconds < totals.uptime_seconds) {
    *status.mutable_last() = WindowBetween(LastBy(*since_seconds), totals);
  }
  for (const double seconds : kRecentSeconds) {
    *status.add_recent() = WindowBetween(LastBy(totals.uptime_seconds - seconds), totals);
  }
  return status;
}

size_t StatusHistory::size() const {
  MutexLock lock(mutex_);
  return moments_.size();
}

// A moment goes where its neighbours alone are close enough together for its age.
void StatusHistory::Add(const Totals& now) {
  // Of two threads the one with the earlier moment may come later.
  if (now.uptime_seconds <= moments_.back().uptime_seconds) return;
  moments_.push_back(now);
  const auto age = [&now](const Totals& moment) {
    return now.uptime_seconds - moment.uptime_seconds;
  };
  for (auto moment = std::next(moments_.begin()); std::next(moment) != moments_.end();) {
    const double apart = std::next(moment)->uptime_seconds - std::prev(moment)->uptime_seconds;
    moment = apart <= age(*moment) / kPart ? moments_.erase(moment) : std::next(moment);
  }
  while (age(*std::next(moments_.begin())) > kMaxAgeSeconds) moments_.pop_front();
}

// The newest moment that is not after that one; the oldest where all are.
const Totals& StatusHistory::LastBy(double uptime_seconds) const {
  for (auto moment = moments_.rbegin(); moment != moments_.rend(); ++moment) {
    if (moment->uptime_seconds <= uptime_seconds + kHalfAMicrosecond) return *moment;
  }
  return moments_.front();
}

}  // namespace stowage
