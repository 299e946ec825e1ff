#include "tests/integration/prometheus.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"
#include "httplib.h"

namespace stowage {
namespace {

std::string Config(const std::string& target, const Prometheus::Options& options) {
  std::string config = absl::StrCat(
      "global: {scrape_interval: 200ms, evaluation_interval: 200ms}\n"
      "rule_files: [",
      options.rules.empty() ? "" : absl::StrCat("'", options.rules, "'"),
      "]\n"
      "scrape_configs:\n"
      "- job_name: stowage\n"
      "  static_configs: [{targets: ['",
      target, "']}]\n");
  if (!options.authority.empty()) {
    absl::StrAppend(&config, "  scheme: https\n  tls_config: {ca_file: '", options.authority,
                    "'}\n");
  }
  if (!options.token_file.empty()) {
    absl::StrAppend(&config, "  authorization: {credentials_file: '", options.token_file, "'}\n");
  }
  return config;
}

}  // namespace

Prometheus::Prometheus(const std::string& target, const Options& options)
    : program_({"/usr/bin/prometheus",
                "--config.file=" + folder_.Write("prometheus.yml", Config(target, options)),
                "--storage.tsdb.path=" + folder_.Path("data"),
                "--web.listen-address=127.0.0.1:0"}) {
  // It says where it listens, as in: … msg="Listening on" address=127.0.0.1:40041
  const std::string line = program_.WaitForLogLine({"msg=\"Listening on\"", "address="});
  if (line.empty() || program_.WaitForLogLine({"Server is ready"}).empty()) {
    throw std::runtime_error("Prometheus does not start:\n" + program_.Log());
  }
  address_ = ValueOf(line, "address=");
}

nlohmann::json Prometheus::Ask(const std::string& path, const std::string& query) const {
  httplib::Client client("http://" + address_);
  client.set_read_timeout(kPatience);
  const httplib::Result result = client.Post(path.c_str(), httplib::Params{{"query", query}});
  if (!result) throw std::runtime_error("Prometheus does not answer");
  nlohmann::json answer = nlohmann::json::parse(result->body);
  if (answer["status"] != "success") {
    throw std::runtime_error(absl::StrCat(query, ": ", result->body));
  }
  return answer["data"];
}

nlohmann::json Prometheus::Query(const std::string& expression) const {
  return Ask("/api/v1/query", expression)["result"];
}

void Prometheus::WaitFor(const std::string& expression) const {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (Query(expression).empty()) {
    if (std::chrono::steady_clock::now() > end) {
      FAIL() << "nothing to be had of " << expression;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

std::map<std::string, nlohmann::json> Prometheus::Firing() const {
  httplib::Client client("http://" + address_);
  const httplib::Result result = client.Get("/api/v1/alerts");
  if (!result) throw std::runtime_error("Prometheus does not answer");
  const nlohmann::json answer = nlohmann::json::parse(result->body);
  std::map<std::string, nlohmann::json> firing;
  for (const nlohmann::json& alert : answer["data"]["alerts"]) {
    if (alert["state"] == "firing") firing[alert["labels"]["alertname"]] = alert;
  }
  return firing;
}

}  // namespace stowage
