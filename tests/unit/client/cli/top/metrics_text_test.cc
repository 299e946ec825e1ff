#include "client/cli/top/metrics_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;

MetricSamples Parsed(const std::string& text) {
  absl::StatusOr<MetricSamples> samples = ParseMetricsText(text);
  EXPECT_THAT(samples, IsOk());
  return samples.ok() ? *std::move(samples) : MetricSamples{};
}

void ExpectRefused(const std::string& line, const std::string& why) {
  EXPECT_THAT(ParseMetricsText("sound 1\n" + line + "\n"),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("line 2: " + why)))
      << line;
}

TEST(MetricsText, ReadsTheMetricsOfAServer) {
  const MetricSamples samples = Parsed(
      "# HELP calls_total Calls that ended, by \"code\".\n"
      "# TYPE calls_total counter\n"
      "calls_total{code=\"OK\",method=\"Solve\"} 12\n"
      "calls_total{code=\"Canceled\",method=\"Solve\"} 3\n"
      "\n"
      "# TYPE ready gauge\n"
      "ready 1\n");
  EXPECT_EQ(samples.size(), 2);
  EXPECT_EQ(MetricValue(samples, "calls_total", {{"method", "Solve"}, {"code", "OK"}}), 12);
  EXPECT_EQ(MetricValue(samples, "ready"), 1);
  EXPECT_EQ(LabelOf(SamplesOf(samples, "calls_total")[1], "code"), "Canceled");
}

TEST(MetricsText, DistinguishesAMissingSeriesFromZero) {
  const MetricSamples samples = Parsed("zero 0\nlabelled{a=\"b\"} 1\n");
  EXPECT_EQ(MetricValue(samples, "zero"), 0);
  EXPECT_EQ(MetricValue(samples, "absent"), std::nullopt);
  EXPECT_EQ(MetricValue(samples, "labelled"), std::nullopt);
  EXPECT_TRUE(SamplesOf(samples, "absent").empty());
  EXPECT_EQ(LabelOf(SamplesOf(samples, "labelled")[0], "c"), "");
}

TEST(MetricsText, ReadsInfinityAndNaN) {
  const MetricSamples samples = Parsed("a +Inf\nb -Inf\nc NaN\nd 1.5e+09\n");
  EXPECT_EQ(MetricValue(samples, "a"), INFINITY);
  EXPECT_EQ(MetricValue(samples, "b"), -INFINITY);
  EXPECT_TRUE(std::isnan(*MetricValue(samples, "c")));
  EXPECT_EQ(MetricValue(samples, "d"), 1.5e9);
}

TEST(MetricsText, ReadsBlanksTimeStampsAndAMissingLineEnd) {
  const MetricSamples samples = Parsed("  a { x = \"1\" , y=\"2\", }\t7 1395066363000\r\nb 2");
  EXPECT_EQ(MetricValue(samples, "a", {{"x", "1"}, {"y", "2"}}), 7);
  EXPECT_EQ(MetricValue(samples, "b"), 2);
}

TEST(MetricsText, ResolvesEscapesInLabels) {
  const MetricSamples samples = Parsed(R"(a{path="C:\\x",said="\"no\"\n}, "} 1)");
  const MetricSample& sample = SamplesOf(samples, "a")[0];
  EXPECT_EQ(LabelOf(sample, "path"), "C:\\x");
  EXPECT_EQ(LabelOf(sample, "said"), "\"no\"\n}, ");
}

TEST(MetricsText, NamesTheMalformedLine) {
  ExpectRefused("<html>", "it does not begin with a metric's name");
  ExpectRefused("name", "it does not end with a number");
  ExpectRefused("name twelve", "it does not end with a number");
  ExpectRefused("name 1 2 3", "it does not end with a number");
  ExpectRefused("name 1 soon", "it does not end with a number");
  ExpectRefused("name{a} 1", "the labels are not name=\"value\" in braces");
  ExpectRefused("name{a=b} 1", "a label lacks its value in quotes");
  ExpectRefused("name{a=\"b} 1", "a label's value lacks its closing quote");
  ExpectRefused("name{a=\"b\\", "a label's value lacks its closing quote");
  ExpectRefused("name{a=\"b\" c=\"d\"} 1", "the labels lack a comma or the closing brace");
  ExpectRefused("name{a=\"b\"", "the labels lack a comma or the closing brace");
}

}  // namespace
}  // namespace stowage
