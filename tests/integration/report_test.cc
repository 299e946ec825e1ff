// What jobs report of their executions, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "client/lib/client.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/rpc.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

v1::ReportExecutionRequest SomeReport() {
  v1::ReportExecutionRequest report;
  report.set_predicted_step_seconds(0.2);
  report.set_measured_step_seconds(0.21);
  report.set_predicted_peak_bytes(1000);
  report.set_measured_peak_bytes(990);
  report.set_agent("stowage-train 0.1.0");
  report.set_job("nightly \"7\"");
  return report;
}

Client ClientOf(const ServerProcess& server) {
  ClientOptions options;
  options.server = server.address();
  return Client(options);
}

TEST(ReportExecution, IsLoggedBesideWhatWasPredicted) {
  ServerProcess server;
  EXPECT_THAT(ClientOf(server).ReportExecution(SomeReport()), IsOk());
  EXPECT_THAT(
      server.WaitForLogLine({"event=execution"}),
      AllOf(HasSubstr("job=\"nightly \\\"7\\\"\""), HasSubstr("agent=\"stowage-train 0.1.0\""),
            HasSubstr("predicted_seconds=0.200000 measured_seconds=0.210000 "
                      "time_error=0.0500"),
            HasSubstr("predicted_peak_bytes=1000 measured_peak_bytes=990 "
                      "peak_error=-0.0100")));
  server.WaitForLogLine({"event=call", "method=ReportExecution", "code=OK"});
}

TEST(ReportExecution, RefusesWhatCannotBeCompared) {
  ServerProcess server;
  Client client = ClientOf(server);
  v1::ReportExecutionRequest report = SomeReport();
  report.set_measured_step_seconds(0);
  EXPECT_THAT(
      client.ReportExecution(report),
      Fails(absl::StatusCode::kInvalidArgument, "measured_step_seconds: is 0; must be positive"));
  report = SomeReport();
  report.set_predicted_step_seconds(std::numeric_limits<double>::infinity());
  report.set_measured_peak_bytes(-5);
  report.set_job(std::string(257, 'j'));
  EXPECT_THAT(client.ReportExecution(report),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("predicted_step_seconds: is inf"),
                          HasSubstr("measured_peak_bytes: is -5"),
                          HasSubstr("job: has 257 bytes; at most 256 are allowed"))));
}

}  // namespace
}  // namespace stowage
