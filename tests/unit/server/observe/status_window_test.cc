// The expected quantiles are those of histogram_quantile() as Prometheus documents it, by hand.
#include "server/observe/status_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "proto/service/execution_report.h"
#include "proto/service/origin.h"
#include "server/events/rejection.h"

namespace stowage::status_window_test {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(Quantile, InterpolatesInsideABucket) {
  const Buckets buckets = {{10, 1}, {30, 2}, {40, 5}, {40, INFINITY}};
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.5), 1.5);  // rank 20 of 10..30
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.9), 3.8);  // rank 36 of 30..40
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.25), 1);   // rank 10, a bound
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.1), 0.4);  // the first begins at 0
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 1), 5);
}

TEST(Quantile, IsTheLastFiniteBoundForThoseBeyondIt) {
  EXPECT_EQ(Quantile({{1, 1}, {1, 2}, {10, INFINITY}}, 0.5), 2);
}

TEST(Quantile, SkipsEmptyBuckets) {
  const Buckets buckets = {{0, 1}, {0, 2}, {8, 4}, {8, INFINITY}};
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.5), 3);
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0), 1);  // and is not 0 divided by 0
}

TEST(Quantile, IsNoneWithoutObservations) {
  EXPECT_EQ(Quantile({}, 0.5), std::nullopt);
  EXPECT_EQ(Quantile({{0, 1}, {0, INFINITY}}, 0.5), std::nullopt);
}

// Calls of a server, and what was counted by then.
class Windows : public testing::Test {
 protected:
  void Call(const std::string& method, double seconds, const absl::Status& status = {}) {
    metrics_.CallBegan(method);
    CallRecord call;
    call.method = method;
    call.client = "trainer";
    call.seconds = seconds;
    call.status = status;
    metrics_.CallEnded(call);
  }
  void Answer(Origin::Source source) {
    CallRecord call;
    call.method = "Solve";
    call.client = "trainer";
    AnswerRecord answer;
    answer.origin.source = source;
    answer.origin.queue_seconds = 0.75;
    answer.origin.solve_seconds = 2;
    call.answer = std::make_shared<const AnswerRecord>(answer);
    metrics_.CallBegan("Solve");
    metrics_.CallEnded(call);
  }
  Totals At(double uptime_seconds, double cpu_seconds = 0) {
    Gauges gauges;
    gauges.process.cpu_seconds = cpu_seconds;
    gauges.memory.evictions = evictions_;
    gauges.tiers = {{.stats = {.name = "disk", .hits = hits_, .misses = 2, .failures = 1}}};
    MetricsSnapshot snapshot = metrics_.Collect(std::move(gauges));
    snapshot.uptime_seconds = uptime_seconds;
    return TotalsOf(snapshot);
  }
  static std::map<std::string, int64_t> AsMap(
      const google::protobuf::RepeatedPtrField<v1::NamedCount>& counts) {
    std::map<std::string, int64_t> map;
    for (const v1::NamedCount& count : counts) {
      if (count.count() > 0) map[count.name()] = count.count();
    }
    return map;
  }

  Metrics metrics_{"1.2.3"};
  int64_t evictions_ = 0;
  int64_t hits_ = 0;
};

TEST_F(Windows, CountCallsAndErrorsOfTheirOwn) {
  Call("Solve", 0.1);
  Call("Solve", 0.1, absl::CancelledError());
  const Totals before = At(10, 3);
  Call("Solve", 0.1, absl::CancelledError());
  Call("Solve", 0.1, Rejected("queue_full", "full", 1));
  Call("Frontier", 0.1);
  const v1::StatusWindow window = WindowBetween(before, At(14, 9));
  EXPECT_EQ(window.seconds(), 4);
  EXPECT_EQ(window.cpu_seconds(), 6);
  ASSERT_EQ(window.calls_size(), 2);
  EXPECT_EQ(window.calls(0).method(), "Frontier");
  EXPECT_EQ(window.calls(0).calls(), 1);
  EXPECT_EQ(window.calls(0).errors_size(), 0);
  EXPECT_EQ(window.calls(1).method(), "Solve");
  EXPECT_EQ(window.calls(1).calls(), 2);
  EXPECT_THAT(AsMap(window.calls(1).errors()),
              ElementsAre(Pair("Canceled", 1), Pair("ResourceExhausted", 1)));
  EXPECT_THAT(AsMap(window.rejected()), ElementsAre(Pair("queue_full", 1)));
  const v1::StatusWindow all = WindowBetween(Totals(), At(14, 9));
  EXPECT_EQ(all.seconds(), 14);
  EXPECT_EQ(all.calls(1).calls(), 4);
  EXPECT_THAT(AsMap(all.calls(1).errors()),
              ElementsAre(Pair("Canceled", 2), Pair("ResourceExhausted", 1)));
}

TEST_F(Windows, HaveQuantilesOfTheirOwnObservations) {
  for (int i = 0; i < 1000; ++i) Call("Solve", 0.0001);
  const Totals before = At(1);
  for (int i = 0; i < 10; ++i) Call("Solve", 3);  // in the bucket from 2.5 to 5
  const v1::StatusWindow window = WindowBetween(before, At(2));
  EXPECT_DOUBLE_EQ(window.calls(0).latency_seconds().p50(), 3.75);
  EXPECT_LT(WindowBetween(Totals(), At(2)).calls(0).latency_seconds().p50(), 0.0005);
  EXPECT_FALSE(WindowBetween(At(2), At(3)).calls(0).has_latency_seconds());
}

TEST_F(Windows, CountAllAnswersWithoutASolveAsHits) {
  EXPECT_FALSE(WindowBetween(Totals(), At(1)).has_hit_ratio());
  for (int i = 0; i < 2; ++i) Answer(Origin::Source::kSolved);
  const Totals before = At(1);
  for (int i = 0; i < 2; ++i) Answer(Origin::Source::kSolved);
  for (int i = 0; i < 5; ++i) Answer(Origin::Source::kMemoryCache);
  for (int i = 0; i < 2; ++i) Answer(Origin::Source::kDiskCache);
  Answer(Origin::Source::kCoalesced);
  const v1::StatusWindow window = WindowBetween(before, At(2));
  EXPECT_DOUBLE_EQ(window.hit_ratio(), 0.8);
  EXPECT_THAT(AsMap(window.answers()), ElementsAre(Pair("coalesced", 1), Pair("disk_cache", 2),
                                                   Pair("memory_cache", 5), Pair("solved", 2)));
  EXPECT_DOUBLE_EQ(window.queue_seconds().p50(), 0.75);  // the middle of its bucket
  ASSERT_EQ(window.clients_size(), 2);
  EXPECT_EQ(window.clients(1).client(), "trainer");
  EXPECT_EQ(window.clients(1).calls(), 10);
  EXPECT_EQ(window.clients(1).solve_seconds(), 4);
}

TEST_F(Windows, ClientsComeAndGo) {
  Totals before;
  before.clients = {{"a", {{"calls", 10}, {"refused", 1}}}, {"again", {{"calls", 9}}}};
  Totals now;
  now.clients = {{"a", {{"calls", 30}, {"refused", 3}}}, {"again", {{"calls", 4}}}, {"new", {}}};
  const v1::StatusWindow window = WindowBetween(before, now);
  ASSERT_EQ(window.clients_size(), 3);
  EXPECT_EQ(window.clients(0).calls(), 20);
  EXPECT_EQ(window.clients(0).refused(), 2);
  EXPECT_EQ(window.clients(1).calls(), 0);  // its counters began at 0 again
  EXPECT_EQ(window.clients(2).client(), "new");
}

TEST_F(Windows, HaveTheTiersAndExecutions) {
  evictions_ = 3;
  hits_ = 4;
  const Totals before = At(1);
  EXPECT_EQ(WindowBetween(before, At(2)).executions().reports(), 0);
  EXPECT_FALSE(WindowBetween(before, At(2)).executions().has_time_error());
  evictions_ = 5;
  hits_ = 10;
  metrics_.StoreFailed(absl::DataLossError("damaged"));
  ExecutionReport report;
  report.predicted_step_seconds = 1;
  report.measured_step_seconds = 1.15;  // in the bucket from 0.1 to 0.2
  report.predicted_peak_bytes = 1000;
  report.measured_peak_bytes = 1000;
  metrics_.ExecutionReported(report, {});
  const v1::StatusWindow window = WindowBetween(before, At(2));
  ASSERT_EQ(window.lookups_size(), 1);
  EXPECT_EQ(window.lookups(0).name(), "disk");
  EXPECT_EQ(window.lookups(0).hits(), 6);
  EXPECT_EQ(window.lookups(0).misses(), 0);
  EXPECT_THAT(AsMap(window.evictions()), ElementsAre(Pair("memory", 2)));
  EXPECT_THAT(AsMap(window.store_failures()), ElementsAre(Pair("damaged", 1)));
  EXPECT_EQ(window.executions().reports(), 1);
  EXPECT_DOUBLE_EQ(window.executions().time_error().p50(), 0.15);
  EXPECT_DOUBLE_EQ(window.executions().peak_error().p50(), 0.0005);
}

}  // namespace
}  // namespace stowage::status_window_test
