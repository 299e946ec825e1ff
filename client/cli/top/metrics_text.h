// What a server says of itself at /metrics: Prometheus' text format, version 0.0.4, read.
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

// Comments, types and time stamps are passed over.
// Errors: INVALID_ARGUMENT with the line's number and what it lacks.
absl::StatusOr<MetricSamples> ParseMetricsText(absl::string_view text);

// Those samples of `name`; none when there are none.
const std::vector<MetricSample>& SamplesOf(const MetricSamples& samples, const std::string& name);

// The value of the series with exactly these labels.
std::optional<double> MetricValue(const MetricSamples& samples, const std::string& name,
                                  const MetricLabels& labels = {});

// A label's value; empty when it is not there.
std::string LabelOf(const MetricSample& sample, const std::string& label);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_METRICS_TEXT_H_
