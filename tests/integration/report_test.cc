// What jobs report of their executions, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "client/lib/remote_scheduler.h"
#include "proto/service/execution_report.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

ExecutionReport SomeReport() {
  return {.fingerprint = "0123456789abcdef0123456789abcdef",
          .predicted_step_seconds = 0.2,
          .measured_step_seconds = 0.21,
          .predicted_peak_bytes = 1000,
          .measured_peak_bytes = 990,
          .agent = "stowage-train 0.1.0",
          .job = "nightly \"7\""};
}

absl::Status Report(const ServerProcess& server, const ExecutionReport& report) {
  RemoteOptions options;
  options.servers = {server.address()};
  return RemoteScheduler(options).ReportExecution(report);
}

TEST(ReportExecution, IsLoggedBesideWhatWasPredicted) {
  ServerProcess server;
  EXPECT_THAT(Report(server, SomeReport()), IsOk());
  EXPECT_THAT(
      server.WaitForLogLine({"event=execution"}),
      AllOf(HasSubstr("fingerprint=0123456789abcdef0123456789abcdef"),
            HasSubstr("job=\"nightly \\\"7\\\"\""), HasSubstr("agent=\"stowage-train 0.1.0\""),
            HasSubstr("predicted_seconds=0.200000 measured_seconds=0.210000 "
                      "time_error=0.0500"),
            HasSubstr("predicted_peak_bytes=1000 measured_peak_bytes=990 "
                      "peak_error=-0.0100")));
  server.WaitForLogLine({"event=call", "method=ReportExecution", "code=OK"});
}

TEST(ReportExecution, RefusesWhatCannotBeCompared) {
  ServerProcess server;
  ExecutionReport report = SomeReport();
  report.measured_step_seconds = 0;
  EXPECT_THAT(Report(server, report),
              Fails(absl::StatusCode::kInvalidArgument,
                    StartsWith("measured_step_seconds: is 0; must be positive")));
  report = SomeReport();
  report.predicted_step_seconds = std::numeric_limits<double>::infinity();
  report.measured_peak_bytes = -5;
  report.job = std::string(257, 'j');
  EXPECT_THAT(Report(server, report),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("predicted_step_seconds: is inf"),
                          HasSubstr("measured_peak_bytes: is -5"),
                          HasSubstr("job: has 257 bytes; at most 256 are allowed"))));
}

}  // namespace
}  // namespace stowage
