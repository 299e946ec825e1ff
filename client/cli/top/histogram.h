// Histograms of a scrape and their quantiles, computed as Prometheus does.
#ifndef STOWAGE_CLIENT_CLI_TOP_HISTOGRAM_H_
#define STOWAGE_CLIENT_CLI_TOP_HISTOGRAM_H_

#include <optional>
#include <string>
#include <vector>

#include "client/cli/top/metrics_text.h"

namespace stowage {

// Cumulative: `count` observations are at most `upper`, which is infinite in the last bucket.
struct HistogramBucket {
  double upper = 0;
  double count = 0;
};
using Histogram = std::vector<HistogramBucket>;  // ascending bounds

// The buckets of `name` with exactly these labels; empty when there are none.
Histogram HistogramOf(const MetricSamples& samples, const std::string& name,
                      const MetricLabels& labels = {});

// The observations between two scrapes of one histogram. Buckets that `before` lacks count as 0.
Histogram Between(const Histogram& before, const Histogram& now);

// The quantile `share`, by linear interpolation in its bucket, as PromQL's histogram_quantile():
// the last finite bound for a quantile beyond it, and a first bucket starts at 0 unless its bound
// is not positive. nullopt without observations. Requires: share in 0..1.
std::optional<double> HistogramQuantile(const Histogram& histogram, double share);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_HISTOGRAM_H_
