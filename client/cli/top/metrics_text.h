// A parser of Prometheus' text format, version 0.0.4: a server's /metrics.
#ifndef STOWAGE_CLIENT_CLI_TOP_METRICS_TEXT_H_
#define STOWAGE_CLIENT_CLI_TOP_METRICS_TEXT_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stowage {

using MetricLabels = std::map<std::string, std::string>;

// One series and its value: name{label="value",…} 1.5
struct MetricSample {
  MetricLabels labels;
  double value = 0;  // may be infinite or NaN
};

// The samples of one scrape by their names, in the order of the text.
using MetricSamples = std::map<std::string, std::vector<MetricSample>>;

// Ignores comments, types and time stamps.
// Errors: INVALID_ARGUMENT with the number of the line and what is wrong with it.
absl::StatusOr<MetricSamples> ParseMetricsText(absl::string_view text);

// The samples of `name`; empty where there are none.
const std::vector<MetricSample>& SamplesOf(const MetricSamples& samples, const std::string& name);

// The value of the series with exactly these labels.
std::optional<double> MetricValue(const MetricSamples& samples, const std::string& name,
                                  const MetricLabels& labels = {});

// The value of a label; empty where the sample does not have it.
std::string LabelOf(const MetricSample& sample, const std::string& label);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_METRICS_TEXT_H_
