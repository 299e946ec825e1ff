#include "client/cli/top/histogram.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"

namespace stowage {

Histogram HistogramOf(const MetricSamples& samples, const std::string& name,
                      const MetricLabels& labels) {
  Histogram histogram;
  for (const MetricSample& sample : SamplesOf(samples, name + "_bucket")) {
    // A bucket's series has the histogram's labels and "le", its upper bound.
    MetricLabels others = sample.labels;
    others.erase("le");
    HistogramBucket bucket{0, sample.value};
    if (others != labels || !absl::SimpleAtod(LabelOf(sample, "le"), &bucket.upper)) continue;
    histogram.push_back(bucket);
  }
  std::sort(histogram.begin(), histogram.end(),
            [](const auto& a, const auto& b) { return a.upper < b.upper; });
  return histogram;
}

// Matches buckets by their bound, since the scrapes need not have the same ones.
Histogram Between(const Histogram& before, const Histogram& now) {
  Histogram between = now;
  for (HistogramBucket& bucket : between) {
    const auto same = std::find_if(before.begin(), before.end(),
                                   [&](const auto& old) { return old.upper == bucket.upper; });
    if (same != before.end()) bucket.count = std::max(0.0, bucket.count - same->count);
  }
  return between;
}

// With rank = share * total, the bucket is the first whose cumulative count reaches the rank, and
// the quantile is lower + (upper - lower) * (rank - count below) / (count inside).
std::optional<double> HistogramQuantile(const Histogram& histogram, double share) {
  if (histogram.size() < 2 || !std::isinf(histogram.back().upper)) return std::nullopt;
  const double all = histogram.back().count;
  if (!(all > 0)) return std::nullopt;
  const double rank = share * all;
  const auto last = histogram.end() - 1;
  const auto bucket = std::find_if(histogram.begin(), last,
                                   [rank](const auto& each) { return each.count >= rank; });
  if (bucket == last) return (last - 1)->upper;
  if (bucket == histogram.begin() && bucket->upper <= 0) return bucket->upper;
  const HistogramBucket below = bucket != histogram.begin() ? *(bucket - 1) : HistogramBucket{};
  const double inside = bucket->count - below.count;
  if (!(inside > 0)) return bucket->upper;  // rank 0 and empty buckets so far
  return below.upper + (bucket->upper - below.upper) * (rank - below.count) / inside;
}

}  // namespace stowage
