// The routes of the HTTP port (README.md, "The HTTP port").
#ifndef STOWAGE_SERVER_HTTP_ROUTES_H_
#define STOWAGE_SERVER_HTTP_ROUTES_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/net/http_port.h"
#include "server/observe/status.h"

namespace stowage {

// What the routes show. Thread-safe.
struct HttpSources {
  std::function<std::string()> metrics;  // in Prometheus' text format
  std::function<v1::ServerStatus(std::optional<double> since_seconds)> status;
  std::function<bool()> ready;  // whether /readyz answers 200 or 503
  bool needs_token = false;     // readers of the metrics and the status have to show one
};

std::vector<HttpRoute> HttpRoutes(const HttpSources& sources);

}  // namespace stowage

#endif  // STOWAGE_SERVER_HTTP_ROUTES_H_
