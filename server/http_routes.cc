#include "server/http_routes.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/convert/json.h"
#include "server/web/page.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

using Access = HttpRoute::Access;
using Query = HttpRoute::Query;
using Clock = std::chrono::steady_clock;

// A parameter in seconds; nullopt where the query has none. Errors: INVALID_ARGUMENT with what it
// must be.
absl::StatusOr<std::optional<double>> SecondsIn(const Query& query, const char* name,
                                                const char* meaning) {
  const auto parameter = query.find(name);
  if (parameter == query.end()) return std::nullopt;
  double seconds = 0;
  if (!absl::SimpleAtod(parameter->second, &seconds) || !(seconds >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": must be ", meaning, "\n"));
  }
  return seconds;
}

// Readers who take a status of some age share one, so that many open pages cost no more than one.
// Used by one thread.
class SharedStatus {
 public:
  explicit SharedStatus(const HttpSources& sources) : status_(sources.status) {}

  absl::StatusOr<std::string> Answer(const Query& query) {
    ASSIGN_OR_RETURN(
        const std::optional<double> since,
        SecondsIn(query, "since", "the uptime_seconds of an earlier answer, as in 12.5"));
    ASSIGN_OR_RETURN(const std::optional<double> max_age,
                     SecondsIn(query, "max_age", "the most seconds since it was read, as in 1"));
    if (since.has_value() || !max_age.has_value()) return ToJson(status_(since));
    const Clock::time_point now = Clock::now();
    if (json_.empty() || std::chrono::duration<double>(now - read_).count() > *max_age) {
      json_ = ToJson(status_(std::nullopt));
      read_ = now;
    }
    return json_;
  }

 private:
  const std::function<v1::ServerStatus(std::optional<double> since_seconds)> status_;
  std::string json_;  // empty: none yet
  Clock::time_point read_;
};

HttpResponse Status(const Query& query, SharedStatus& shared) {
  absl::StatusOr<std::string> json = shared.Answer(query);
  if (!json.ok()) return {.status = 400, .body = std::string(json.status().message())};
  return {.type = "application/json",
          .body = *std::move(json),
          .headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}}};
}

HttpResponse Ready(bool is_ready) {
  if (is_ready) return {.body = "ok\n"};
  return {.status = 503, .body = "not ready: starting or draining\n"};
}

}  // namespace

std::vector<HttpRoute> HttpRoutes(const HttpSources& sources) {
  const auto shared = std::make_shared<SharedStatus>(sources);
  // The page is the same for all and says nothing of this server: what it shows is in /status.
  return {{"/", Access::kOpen,
           [needs_token = sources.needs_token](const Query&) -> HttpResponse {
             return {.type = "text/html; charset=utf-8",
                     .body = ServicePage(needs_token),
                     .headers = PageHeaders()};
           }},
          {"/metrics", Access::kReaders,
           [sources](const Query&) -> HttpResponse {
             return {.type = "text/plain; version=0.0.4", .body = sources.metrics()};
           }},
          {"/status", Access::kReaders,
           [shared](const Query& query) { return Status(query, *shared); }},
          {"/livez", Access::kOpen, [](const Query&) -> HttpResponse { return {.body = "ok\n"}; }},
          {"/readyz", Access::kOpen, [sources](const Query&) { return Ready(sources.ready()); }}};
}

}  // namespace stowage
