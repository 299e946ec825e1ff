// A server's own figures, as an operator's tools read them.
#ifndef STOWAGE_TESTS_INTEGRATION_METRICS_H_
#define STOWAGE_TESTS_INTEGRATION_METRICS_H_

#include <cstdint>
#include <string>

#include "tests/support/process.h"

namespace stowage {

// The answer to GET `path` with its status before it ("200 ok"); empty when there is none.
std::string HttpGet(const std::string& address, const std::string& path);

// The value of a line of a text in Prometheus' format: ValueIn(text, "stowage_ready"). NaN when
// there is none.
double ValueIn(const std::string& text, const std::string& series);

// The value of a line of /metrics: MetricOf(server, "stowage_ready"). NaN when there is none.
double MetricOf(const ServerProcess& server, const std::string& series);

// Until it has that value; fails the test when it has not within kPatience.
void WaitForMetric(const ServerProcess& server, const std::string& series, double value);

// A number of /proc/PID/status: OfProcess(server, "VmHWM"), the most memory that it ever had
// resident, in KiB; OfProcess(server, "Threads").
int64_t OfProcess(const ServerProcess& server, const std::string& field);

// Whether the servers of the tests are built with AddressSanitizer, and take its memory.
bool ServerIsSanitized();

}  // namespace stowage

#endif  // STOWAGE_TESTS_INTEGRATION_METRICS_H_
