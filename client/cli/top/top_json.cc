#include "client/cli/top/top_json.h"

#include <algorithm>
#include <cstdint>

#include "nlohmann/json.hpp"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

Json OfOptional(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json();
}

Json OfQuantiles(const std::optional<Quantiles>& quantiles) {
  if (!quantiles.has_value()) return {};
  return {{"p50", quantiles->p50}, {"p90", quantiles->p90}, {"p99", quantiles->p99}};
}

// Counters are doubles on the wire, and whole.
Json OfCount(double count) { return static_cast<int64_t>(std::min(count, 1e18)); }

Json OfCounts(const Counts& counts) {
  Json json = Json::object();
  for (const auto& [label, count] : counts) json[label] = OfCount(count);
  return json;
}

Json OfWindow(const Window& window) {
  Json calls = Json::object();
  for (const auto& [method, figures] : window.calls) {
    calls[method] = {{"calls", OfCount(figures.calls)},
                     {"per_second", window.PerSecond(figures.calls)},
                     {"errors", OfCounts(figures.errors)},
                     {"latency_seconds", OfQuantiles(figures.latency)}};
  }
  Json clients = Json::object();
  for (const auto& [client, figures] : window.clients) {
    clients[client] = {{"calls", OfCount(figures.calls)},
                       {"per_second", window.PerSecond(figures.calls)},
                       {"refused", OfCount(figures.refused)},
                       {"solve_seconds", figures.solve_seconds}};
  }
  return {{"seconds", window.seconds},
          {"cpu_seconds", window.cpu_seconds},
          {"calls", calls},
          {"clients", clients},
          {"answers", OfCounts(window.answers)},
          {"hit_ratio", OfOptional(window.HitRatio())},
          {"queue_seconds", OfQuantiles(window.queue_wait)},
          {"rejected", OfCounts(window.rejected)},
          {"evictions", OfCounts(window.evictions)},
          {"store_failures", OfCounts(window.store_failures)}};
}

}  // namespace

// An unreachable server has no figures: those of an earlier scrape would pass for current ones.
std::string TopJson(const TopView& view) {
  const TopFigures& figures = view.figures;
  Json json = {{"server", view.address}, {"reachable", view.problem.empty()}};
  if (!view.problem.empty()) {
    json["problem"] = view.problem;
    json["problem_seconds"] = view.problem_seconds;
  } else {
    json["unix_seconds"] = figures.unix_seconds;
    json["version"] = figures.version;
    json["ready"] = figures.ready;
    json["uptime_seconds"] = figures.uptime_seconds;
    json["restarts_seen"] = view.restarts;
    json["resident_bytes"] = figures.resident_bytes;
    json["open_files"] = figures.open_files;
    json["calls_in_flight"] = figures.calls_in_flight;
    json["requests_in_flight"] = figures.requests_in_flight;
    json["solves"] = {
        {"waiting", figures.solves_waiting}, {"waiting_limit", figures.solves_waiting_limit},
        {"running", figures.solves_running}, {"running_limit", figures.solves_running_limit},
        {"bytes", figures.solve_bytes},      {"limit_bytes", figures.solve_limit_bytes}};
    json["caches"] = Json::object();
    for (const CacheFigures& cache : figures.caches) {
      json["caches"][cache.tier] = {
          {"bytes", cache.bytes}, {"limit_bytes", cache.limit_bytes}, {"entries", cache.entries}};
    }
    json["running"] = Json::array();
    for (const RunningFigures& solve : figures.running) {
      json["running"].push_back({{"thread", solve.thread},
                                 {"solver", solve.solver},
                                 {"stages", solve.stages},
                                 {"seconds", solve.seconds},
                                 {"fraction", solve.fraction}});
    }
    json["last"] = figures.last.has_value() ? OfWindow(*figures.last) : Json();
    json["since_start"] = OfWindow(figures.since_start);
  }
  // One line. Names from the server may be invalid UTF-8, which dump() would throw on.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stowage
