// Histograms of a scrape, and the quantiles that Prometheus would find in them.
#ifndef STOWAGE_CLIENT_CLI_TOP_HISTOGRAM_H_
#define STOWAGE_CLIENT_CLI_TOP_HISTOGRAM_H_

#include <optional>
#include <string>
#include <vector>

#include "client/cli/top/metrics_text.h"

namespace stowage {

// Observations up to and including `upper`, all lower ones too; the last is infinity.
struct HistogramBucket {
  double upper = 0;
  double count = 0;
};
using Histogram = std::vector<HistogramBucket>;  // by their bounds

// The buckets of `name` with exactly these labels; empty when there are none.
Histogram HistogramOf(const MetricSamples& samples, const std::string& name,
                      const MetricLabels& labels = {});

// What came between two looks at one histogram. What `before` lacks was 0.
Histogram Between(const Histogram& before, const Histogram& now);

// The value below which a share of the observations are, by linear interpolation in its bucket: as
// histogram_quantile() has it, so what is beyond the last bound counts as that bound, and a first
// bucket begins at 0 unless it ends below. nullopt without observations. Requires: share in 0..1.
std::optional<double> HistogramQuantile(const Histogram& histogram, double share);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_HISTOGRAM_H_
