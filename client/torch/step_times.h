// The time of an operation within a step, from what it takes by itself.
#ifndef STOWAGE_CLIENT_TORCH_STEP_TIMES_H_
#define STOWAGE_CLIENT_TORCH_STEP_TIMES_H_

#include <vector>

namespace stowage {

struct OperationTimes {
  double host_seconds = 0;    // to enqueue it
  double device_seconds = 0;  // to run it once everything is enqueued
};

// The seconds by which each of `operations`, enqueued in this order by one thread, lets their
// device end later: its device seconds while the host is ahead, more where the device waits for the
// host. They sum up to the time of all.
std::vector<double> SecondsInAStep(const std::vector<OperationTimes>& operations);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STEP_TIMES_H_
