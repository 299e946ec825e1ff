#include "server/http_routes.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "proto/convert/json.h"

namespace stowage {
namespace {

using Access = HttpRoute::Access;

HttpResponse Status(const HttpRoute::Query& query, const HttpSources& sources) {
  std::optional<double> since_seconds;
  if (const auto since = query.find("since"); since != query.end()) {
    double seconds = 0;
    if (!absl::SimpleAtod(since->second, &seconds) || !(seconds >= 0)) {
      return {.status = 400,
              .body = "since: must be the uptime_seconds of an earlier answer, as in 12.5\n"};
    }
    since_seconds = seconds;
  }
  return {.type = "application/json", .body = ToJson(sources.status(since_seconds))};
}

HttpResponse Ready(bool is_ready) {
  if (is_ready) return {.body = "ok\n"};
  return {.status = 503, .body = "not ready: starting or draining\n"};
}

}  // namespace

std::vector<HttpRoute> HttpRoutes(const HttpSources& sources) {
  using Query = HttpRoute::Query;
  return {{"/metrics", Access::kReaders,
           [sources](const Query&) -> HttpResponse {
             return {.type = "text/plain; version=0.0.4", .body = sources.metrics()};
           }},
          {"/status", Access::kReaders,
           [sources](const Query& query) { return Status(query, sources); }},
          {"/livez", Access::kOpen, [](const Query&) -> HttpResponse { return {.body = "ok\n"}; }},
          {"/readyz", Access::kOpen, [sources](const Query&) { return Ready(sources.ready()); }}};
}

}  // namespace stowage
