#include "tests/integration/haproxy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/integration/metrics.h"
#include "tests/integration/raw_client.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> Command(const std::vector<const ServerProcess*>& servers,
                                 const std::vector<std::string>& variables,
                                 const std::string& configuration) {
  std::vector<std::string> argv = {"/usr/bin/env"};
  argv.insert(argv.end(), variables.begin(), variables.end());
  for (size_t i = 0; i < servers.size(); ++i) {
    const std::string number = i == 0 ? "" : absl::StrCat("_", i + 1);
    argv.push_back(absl::StrCat("STOWAGE_SERVER", number, "=", servers[i]->address()));
    argv.push_back(absl::StrCat("STOWAGE_READY", number, "=", servers[i]->http_address()));
  }
  argv.insert(argv.end(), {"/usr/sbin/haproxy", "-db", "-f", configuration});
  return argv;
}

std::vector<std::string> With(std::vector<std::string> variables, const std::string& more,
                              const std::string& yet_more) {
  variables.insert(variables.end(), {more, yet_more});
  return variables;
}

}  // namespace

const char* const kShippedHaproxy = STOWAGE_ROOT "/deploy/haproxy/haproxy.cfg";

Haproxy::Haproxy(const std::vector<const ServerProcess*>& servers,
                 const std::vector<std::string>& variables, const std::string& configuration,
                 const std::string& bind)
    : address_("127.0.0.1:" + FreePort()),
      metrics_address_("127.0.0.1:" + FreePort()),
      program_(Command(
          servers,
          With(variables, "STOWAGE_BIND=" + address_ + bind, "STOWAGE_METRICS=" + metrics_address_),
          configuration)) {
  WaitUntilListening(address_);
  WaitUntilListening(metrics_address_);
}

double Haproxy::Figure(absl::string_view figure, absl::string_view server,
                       absl::string_view labels) const {
  return ValueIn(HttpGet(metrics_address_, "/metrics"),
                 absl::StrCat("haproxy_server_", figure, "{proxy=\"servers\",server=\"", server,
                              "\"", labels, "}"));
}

void Haproxy::WaitForFigure(absl::string_view figure, absl::string_view server,
                            absl::string_view labels, double value) {
  const auto deadline = Clock::now() + kPatience;
  while (Figure(figure, server, labels) != value) {
    ASSERT_LT(Clock::now(), deadline) << figure << " of " << server << "\n" << Log();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace stowage
