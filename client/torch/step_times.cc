// With h and g an operation's host and device seconds: H += h, then G = max(G + g, H), where H is
// when it is enqueued and G when it ends.
#include "client/torch/step_times.h"

#include <algorithm>

namespace stowage {

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
