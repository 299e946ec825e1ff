// With h and g an operation's host and device seconds: H += h, then G = max(G + g, H), where H is
// when it is enqueued and G when it ends.
#include "client/torch/profile/step_times.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "solver/base/quantile.h"

namespace stowage {
namespace {

OperationTimes MediansOf(const OperationRuns& runs) {
  std::vector<double> host_seconds;
  std::vector<double> device_seconds;
  for (const OperationTimes& run : runs) {
    host_seconds.push_back(run.host_seconds);
    device_seconds.push_back(run.device_seconds);
  }
  return {MedianOf(std::move(host_seconds)), MedianOf(std::move(device_seconds))};
}

double SecondsAlone(const OperationTimes& times) {
  return std::max(times.host_seconds, times.device_seconds);
}

// Replaces the medians of `fellows`, which are operations, by those of all their runs.
void Pool(const std::vector<OperationRuns>& runs, const std::vector<size_t>& fellows,
          std::vector<OperationTimes>* medians) {
  constexpr double kFar = 1.5;  // more than noise, so the work differs in something unseen
  std::vector<double> seconds;
  for (const size_t i : fellows) seconds.push_back(SecondsAlone((*medians)[i]));
  const double middle = MedianOf(seconds);
  std::vector<size_t> near;
  OperationRuns together;
  for (const size_t i : fellows) {
    const double own = SecondsAlone((*medians)[i]);
    if (own > kFar * middle || middle > kFar * own) continue;
    near.push_back(i);
    together.insert(together.end(), runs[i].begin(), runs[i].end());
  }
  const OperationTimes pooled = MediansOf(together);
  for (const size_t i : near) (*medians)[i] = pooled;
}

}  // namespace

std::vector<OperationTimes> PooledMedians(const std::vector<OperationRuns>& runs,
                                          const std::vector<std::string>& work) {
  std::vector<OperationTimes> medians;
  std::map<std::string, std::vector<size_t>> fellows;
  for (size_t i = 0; i < runs.size(); ++i) {
    medians.push_back(MediansOf(runs[i]));
    if (!work[i].empty()) fellows[work[i]].push_back(i);
  }
  for (const auto& [same_work, operations] : fellows) Pool(runs, operations, &medians);
  return medians;
}

std::vector<double> SecondsInAStep(const std::vector<OperationTimes>& operations) {
  std::vector<double> seconds;
  seconds.reserve(operations.size());
  double enqueued = 0;
  double ended = 0;
  for (const OperationTimes& operation : operations) {
    enqueued += operation.host_seconds;
    // The difference is computed apart, so that it is exactly g where the host is ahead.
    seconds.push_back(std::max(operation.device_seconds, enqueued - ended));
    ended = std::max(ended + operation.device_seconds, enqueued);
  }
  return seconds;
}

}  // namespace stowage
