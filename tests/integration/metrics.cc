#include "tests/integration/metrics.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "httplib.h"
#include "tests/support/files.h"

namespace stowage {

std::string HttpGet(const std::string& address, const std::string& path) {
  httplib::Client client("http://" + address);
  client.set_read_timeout(kPatience);
  const httplib::Result result = client.Get(path.c_str());
  return result ? absl::StrCat(result->status, " ", result->body) : "";
}

double ValueIn(const std::string& text, const std::string& series) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, series + " ") && absl::SimpleAtod(line, &value)) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double MetricOf(const ServerProcess& server, const std::string& series) {
  return ValueIn(HttpGet(server.http_address(), "/metrics"), series);
}

void WaitForMetric(const ServerProcess& server, const std::string& series, double value) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  double last = MetricOf(server, series);
  while (last != value && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    last = MetricOf(server, series);
  }
  EXPECT_EQ(last, value) << series;
}

int64_t OfProcess(const ServerProcess& server, const std::string& field) {
  const std::string status = ReadFile(absl::StrCat("/proc/", server.pid(), "/status"));
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    int64_t value = 0;
    if (absl::ConsumePrefix(&line, field + ":") &&
        absl::SimpleAtoi(absl::StripSuffix(line, " kB"), &value)) {
      return value;
    }
  }
  ADD_FAILURE() << "no " << field << " in " << status;
  return 0;
}

bool ServerIsSanitized() {
  static const bool sanitized =
      absl::StrContains(ReadFile(Program("stowage-server")), "__asan_init");
  return sanitized;
}

}  // namespace stowage
