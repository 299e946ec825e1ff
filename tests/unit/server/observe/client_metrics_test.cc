#include "server/observe/client_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

using std::chrono::minutes;
using testing::ElementsAre;
using testing::Pair;

class ClientMetricsTest : public testing::Test {
 protected:
  void Calls(const std::string& client, int count, const absl::Status& status = absl::OkStatus()) {
    CallRecord record;
    record.client = client;
    record.status = status;
    for (int i = 0; i < count; ++i) metrics_.CallEnded(record);
  }
  // A counter's value by client, at a scrape `after` the start.
  std::map<std::string, double> Scrape(minutes after,
                                       const std::string& name = "stowage_client_calls_total") {
    std::map<std::string, double> values;
    for (const auto& family : metrics_.Collect(ClientMetrics::Clock::time_point() + after)) {
      if (family.name != name) continue;
      for (const auto& metric : family.metric) {
        values[metric.label.at(0).value] = metric.counter.value;
      }
    }
    return values;
  }

  ClientMetrics metrics_{2};
};

TEST_F(ClientMetricsTest, TheFirstClientsHaveSeriesAndTheOthersShareOne) {
  Calls("a", 1);
  Calls("b", 2);
  Calls("c", 3);
  Calls("d", 4);
  EXPECT_THAT(Scrape(minutes(0)), ElementsAre(Pair("a", 1), Pair("b", 2), Pair("other", 7)));
}

TEST_F(ClientMetricsTest, ABusyClientTakesTheLabelOfTheQuietestFromItsZero) {
  Calls("a", 5);
  Calls("b", 2);
  Calls("c", 5);
  EXPECT_THAT(Scrape(minutes(1)), ElementsAre(Pair("a", 5), Pair("c", 0), Pair("other", 5)));
  Calls("c", 3);
  Calls("b", 1);
  EXPECT_THAT(Scrape(minutes(1)), ElementsAre(Pair("a", 5), Pair("c", 3), Pair("other", 6)));
}

TEST_F(ClientMetricsTest, AFloodOfClientsTakesABoundedNumberOfSeries) {
  Calls("a", 50);
  for (int i = 0; i < 30'000; ++i) Calls(absl::StrCat("flood", i), 1);
  const auto values = Scrape(minutes(1));
  EXPECT_EQ(values.size(), 3);
  EXPECT_EQ(values.at("a"), 50);
  EXPECT_EQ(values.at("other"), 29'999);
}

TEST_F(ClientMetricsTest, CountsRefusals) {
  Calls("a", 3, absl::ResourceExhaustedError("full"));
  Calls("a", 4, absl::InvalidArgumentError("bad"));
  Calls("a", 5, absl::DeadlineExceededError("late"));
  EXPECT_EQ(Scrape(minutes(0), "stowage_client_refused_total").at("a"), 7);
}

}  // namespace
}  // namespace stowage
