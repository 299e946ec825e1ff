// The port for operators, read by a test and by a real Prometheus.
#include "tests/integration/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/convert/json.h"
#include "stowage/v1/status.pb.h"
#include "tests/integration/prometheus.h"
#include "tests/integration/rpc.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::StartsWith;

TEST(Metrics, CountsCallsByMethodAndCode) {
  ServerProcess server;
  const Remote remote(server.address());
  EXPECT_TRUE(remote.Answers());
  v1::SolveRequest wrong = SmallSolveRequest();
  wrong.set_solver("no such solver");
  v1::SolveResponse response;
  EXPECT_FALSE(remote.Solve(wrong, &response).ok());
  const std::string labels =
      R"(grpc_method="Solve",grpc_service="stowage.v1.Scheduler",grpc_type="unary")";
  EXPECT_EQ(MetricOf(server, absl::StrCat("grpc_server_started_total{", labels, "}")), 2);
  EXPECT_EQ(
      MetricOf(server, absl::StrCat("grpc_server_handled_total{grpc_code=\"OK\",", labels, "}")),
      1);
  EXPECT_EQ(
      MetricOf(server, absl::StrCat("grpc_server_handled_total{grpc_code=\"InvalidArgument\",",
                                    labels, "}")),
      1);
  EXPECT_EQ(MetricOf(server, "stowage_rejected_total{reason=\"invalid\"}"), 1);
  EXPECT_EQ(MetricOf(server, "stowage_answers_total{source=\"solved\"}"), 1);
  EXPECT_EQ(MetricOf(server, "stowage_solve_seconds_count{solver=\"auto\"}"), 1);
  EXPECT_GT(MetricOf(server, "process_resident_memory_bytes"), 1e6);
  EXPECT_GT(MetricOf(server, "process_virtual_memory_bytes"),
            MetricOf(server, "process_resident_memory_bytes"));
  EXPECT_GT(MetricOf(server, "process_max_fds"), MetricOf(server, "process_open_fds"));
  EXPECT_GT(MetricOf(server, "process_threads"), 2);
  EXPECT_EQ(MetricOf(server, "stowage_connections_accepted_total"), 1);
}

TEST(Metrics, SayWhyCallsAreRejected) {
  ServerProcess server({"--threads", "1", "--short-threads", "0", "--queue-length", "0"});
  const Remote remote(server.address());
  const auto running = Occupy(remote, LongSolveRequest());
  EXPECT_EQ(MetricOf(server, "stowage_solves_running"), 1);
  EXPECT_GT(MetricOf(server, "stowage_solve_memory_bytes"), 0);
  EXPECT_FALSE(remote.Answers());
  EXPECT_GE(MetricOf(server, "stowage_rejected_total{reason=\"queue_full\"}"), 1);
  running->Cancel();
}

TEST(Metrics, ReadinessEndsWithTheSignalAndLivenessDoesNot) {
  ServerProcess server({"--grace", "100s"});
  EXPECT_EQ(HttpGet(server.http_address(), "/livez"), "200 ok\n");
  EXPECT_EQ(HttpGet(server.http_address(), "/readyz"), "200 ok\n");
  EXPECT_EQ(MetricOf(server, "stowage_ready"), 1);
  const Remote remote(server.address());
  PendingSolve running(remote, LongSolveRequest(5000, int64_t{500} << 30));
  WaitForMetric(server, "stowage_solves_running", 1);
  server.Signal(SIGTERM);
  EXPECT_NE(server.WaitForLogLine({"event=draining"}), "");
  WaitForMetric(server, "stowage_ready", 0);
  EXPECT_THAT(HttpGet(server.http_address(), "/readyz"), StartsWith("503"));
  EXPECT_EQ(HttpGet(server.http_address(), "/livez"), "200 ok\n");
  EXPECT_TRUE(running.Wait().ok());
}

TEST(Metrics, ReportedExecutionsFeedThePredictionErrors) {
  ServerProcess server;
  const auto stub = v1::Scheduler::NewStub(Remote(server.address()).channel());
  v1::ReportExecutionRequest report;
  report.set_predicted_step_seconds(1);
  report.set_measured_step_seconds(1.5);
  report.set_predicted_peak_bytes(1000);
  report.set_measured_peak_bytes(1010);
  grpc::ClientContext context;
  v1::ReportExecutionResponse response;
  ASSERT_TRUE(stub->ReportExecution(&context, report, &response).ok());
  EXPECT_EQ(MetricOf(server, "stowage_prediction_time_error_ratio_sum"), 0.5);
  EXPECT_NEAR(MetricOf(server, "stowage_prediction_peak_error_ratio_sum"), 0.01, 1e-12);
}

// The status as JSON, since an earlier look where there is one.
v1::ServerStatus StatusOf(const ServerProcess& server, const std::string& query = "") {
  const std::string answer = HttpGet(server.http_address(), absl::StrCat("/status", query));
  EXPECT_THAT(answer, StartsWith("200 "));
  v1::ServerStatus status;
  EXPECT_THAT(FromJson(answer.substr(4), "status", &status), IsOk());
  return status;
}

TEST(Status, HasWhatHappenedSinceALook) {
  ServerProcess server;
  const Remote remote(server.address());
  EXPECT_TRUE(remote.Answers());
  const v1::ServerStatus first = StatusOf(server);
  EXPECT_FALSE(first.has_last());
  EXPECT_EQ(first.since_start().calls(0).calls(), 1);
  EXPECT_TRUE(remote.Answers());
  EXPECT_TRUE(remote.Answers());
  const v1::ServerStatus second =
      StatusOf(server, absl::StrFormat("?since=%.6f", first.uptime_seconds()));
  EXPECT_EQ(second.start_unix_seconds(), first.start_unix_seconds());
  EXPECT_NEAR(second.last().seconds(), second.uptime_seconds() - first.uptime_seconds(), 1e-6);
  EXPECT_EQ(second.last().calls(0).calls(), 2);
  EXPECT_EQ(second.since_start().calls(0).calls(), 3);
  EXPECT_EQ(second.recent_size(), 3);
}

TEST(Status, SaysWhatSinceMustBe) {
  ServerProcess server;
  for (const char* since : {"yesterday", "-1", "nan", ""}) {
    EXPECT_EQ(HttpGet(server.http_address(), absl::StrCat("/status?since=", since)),
              "400 since: must be the uptime_seconds of an earlier answer, as in 12.5\n");
  }
}

TEST(Status, ReadersWhoTakeAnOlderOneShareIt) {
  ServerProcess server;
  const v1::ServerStatus first = StatusOf(server, "?max_age=100");
  EXPECT_EQ(StatusOf(server, "?max_age=100").uptime_seconds(), first.uptime_seconds());
  EXPECT_GT(StatusOf(server).uptime_seconds(), first.uptime_seconds());
  const double since = first.uptime_seconds();
  EXPECT_GT(StatusOf(server, absl::StrFormat("?max_age=100&since=%.6f", since)).last().seconds(),
            0);
  const v1::ServerStatus second = StatusOf(server, "?max_age=0");
  EXPECT_GT(second.uptime_seconds(), first.uptime_seconds());
  EXPECT_EQ(StatusOf(server, "?max_age=100").uptime_seconds(), second.uptime_seconds());
  EXPECT_EQ(HttpGet(server.http_address(), "/status?max_age=old"),
            "400 max_age: must be the most seconds since it was read, as in 1\n");
}

TEST(Metrics, PromtoolFindsNothingToImprove) {
  ServerProcess server;
  const Remote remote(server.address());
  EXPECT_TRUE(remote.Answers());
  const PendingSolve running(remote, LongSolveRequest());
  WaitForMetric(server, "stowage_running_solve_stages{solver=\"periodic\",thread=\"0\"}", 10'000);
  const std::string text = HttpGet(server.http_address(), "/metrics").substr(4);
  const ProgramResult result = RunProgram({"/usr/bin/promtool", "check", "metrics"}, text);
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.err, "");
}

TEST(Metrics, ARealPrometheusScrapesThem) {
  ServerProcess server;
  EXPECT_TRUE(Remote(server.address()).Answers());
  const Prometheus prometheus(server.http_address());
  prometheus.WaitFor("stowage_answers_total{source=\"solved\"} == 1");
}

}  // namespace
}  // namespace stowage
