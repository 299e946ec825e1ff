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
  struct Options {
    std::string rules = {};       // the path of a file with rules, or empty
    std::string authority = {};   // PEM: not empty, it scrapes over TLS
    std::string token_file = {};  // what it sends as a bearer token, or empty
  };
  // `target` is the host:port of a server's /metrics, as job "stowage". Returns once it answers;
  // throws std::runtime_error with its log when it does not.
  explicit Prometheus(const std::string& target, const Options& options);
  explicit Prometheus(const std::string& target) : Prometheus(target, Options()) {}

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
