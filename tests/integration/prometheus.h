// A real Prometheus of a test's own, on a free port, that watches servers.
#ifndef STOWAGE_TESTS_INTEGRATION_PROMETHEUS_H_
#define STOWAGE_TESTS_INTEGRATION_PROMETHEUS_H_

#include <map>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {

// Scrapes, and evaluates rules, five times a second.
class Prometheus {
 public:
  // `target` is the host:port of a server's /metrics, as job "stowage"; `rules` the path of a file
  // with rules, or empty. Returns once it answers; throws std::runtime_error with its log when it
  // does not.
  explicit Prometheus(const std::string& target, const std::string& rules = "");

  // What an instant query finds now: a list of {"metric": labels, "value": [time, "value"]}.
  // Throws std::runtime_error with Prometheus' message where it cannot be evaluated.
  nlohmann::json Query(const std::string& expression) const;

  // Until the expression finds something; fails the test when it has not within kPatience.
  void WaitFor(const std::string& expression) const;

  // The alerts that fire, by name: {"annotations": {…}, "labels": {…}, "state": "firing"}.
  std::map<std::string, nlohmann::json> Firing() const;

 private:
  nlohmann::json Ask(const std::string& path, const std::string& query) const;

  const TempFolder folder_;
  BackgroundProgram program_;
  std::string address_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_INTEGRATION_PROMETHEUS_H_
