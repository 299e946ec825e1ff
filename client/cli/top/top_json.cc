#include "client/cli/top/top_json.h"

#include "nlohmann/json.hpp"

namespace stowage {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson OfQuantiles(bool has_any, const v1::Quantiles& quantiles) {
  if (!has_any) return {};
  return {{"p50", quantiles.p50()}, {"p90", quantiles.p90()}, {"p99", quantiles.p99()}};
}

OrderedJson OfCounts(const NamedCounts& counts) {
  OrderedJson json = OrderedJson::object();
  for (const v1::NamedCount& count : counts) json[count.name()] = count.count();
  return json;
}

OrderedJson OfWindow(const v1::StatusWindow& window) {
  OrderedJson calls = OrderedJson::object();
  for (const v1::MethodCalls& method : window.calls()) {
    calls[method.method()] = {
        {"calls", method.calls()},
        {"per_second", PerSecond(method.calls(), window)},
        {"errors", OfCounts(method.errors())},
        {"latency_seconds", OfQuantiles(method.has_latency_seconds(), method.latency_seconds())}};
  }
  OrderedJson clients = OrderedJson::object();
  for (const v1::ClientCalls& client : window.clients()) {
    clients[client.client()] = {{"calls", client.calls()},
                                {"per_second", PerSecond(client.calls(), window)},
                                {"refused", client.refused()},
                                {"solve_seconds", client.solve_seconds()}};
  }
  return {{"seconds", window.seconds()},
          {"cpu_seconds", window.cpu_seconds()},
          {"calls", calls},
          {"clients", clients},
          {"answers", OfCounts(window.answers())},
          {"hit_ratio", window.has_hit_ratio() ? OrderedJson(window.hit_ratio()) : OrderedJson()},
          {"queue_seconds", OfQuantiles(window.has_queue_seconds(), window.queue_seconds())},
          {"rejected", OfCounts(window.rejected())},
          {"evictions", OfCounts(window.evictions())},
          {"store_failures", OfCounts(window.store_failures())}};
}

}  // namespace

// An unreachable server has no figures: those of an earlier scrape would pass for current ones.
std::string TopJson(const TopView& view) {
  const v1::ServerStatus& status = view.status;
  OrderedJson json = {{"server", view.address}, {"reachable", view.problem.empty()}};
  if (!view.problem.empty()) {
    json["problem"] = view.problem;
    json["problem_seconds"] = view.problem_seconds;
  } else {
    json["unix_seconds"] = view.unix_seconds;
    json["version"] = status.version();
    json["ready"] = status.ready();
    json["uptime_seconds"] = status.uptime_seconds();
    json["restarts_seen"] = view.restarts;
    json["resident_bytes"] = status.resident_bytes();
    json["open_files"] = status.open_files();
    json["calls_in_flight"] = OfCounts(status.calls_in_flight());
    json["requests_in_flight"] = status.requests_in_flight();
    const v1::SolveCapacity& solves = status.solves();
    json["solves"] = {{"waiting", solves.waiting()}, {"waiting_limit", solves.waiting_limit()},
                      {"running", solves.running()}, {"running_limit", solves.running_limit()},
                      {"bytes", solves.bytes()},     {"limit_bytes", solves.limit_bytes()}};
    json["caches"] = OrderedJson::object();
    for (const v1::CacheStatus& cache : status.caches()) {
      json["caches"][cache.name()] = {{"bytes", cache.bytes()},
                                      {"limit_bytes", cache.limit_bytes()},
                                      {"entries", cache.entries()}};
    }
    json["running"] = OrderedJson::array();
    for (const v1::SolveProgress& solve : status.running()) {
      json["running"].push_back({{"thread", solve.thread()},
                                 {"solver", solve.solver()},
                                 {"stages", solve.stages()},
                                 {"seconds", solve.seconds()},
                                 {"fraction", solve.fraction()}});
    }
    json["last"] = status.has_last() ? OfWindow(status.last()) : OrderedJson();
    json["since_start"] = OfWindow(status.since_start());
  }
  // One line. Names from the server may be invalid UTF-8, which dump() would throw on.
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace stowage
