// The time of an operation within a step, from what it takes by itself.
#ifndef STOWAGE_CLIENT_TORCH_PROFILE_STEP_TIMES_H_
#define STOWAGE_CLIENT_TORCH_PROFILE_STEP_TIMES_H_

#include <string>
#include <vector>

namespace stowage {

struct OperationTimes {
  double host_seconds = 0;    // to enqueue it
  double device_seconds = 0;  // to run it once everything is enqueued
};

// The measured runs of one operation, in any order.
using OperationRuns = std::vector<OperationTimes>;

// The medians of each operation's runs; of operations that do the same `work`, those of all their
// runs: otherwise a schedule saves the stages that noise has lengthened, and gains nothing by it.
// An operation whose own medians are far from its fellows' keeps them, and so does one whose work
// is empty, which means not known. Both vectors are by operation; none is without runs.
std::vector<OperationTimes> PooledMedians(const std::vector<OperationRuns>& runs,
                                          const std::vector<std::string>& work);

// The seconds by which each of `operations`, enqueued in this order by one thread, lets their
// device end later: its device seconds while the host is ahead, more where the device waits for the
// host. They sum up to the time of all.
std::vector<double> SecondsInAStep(const std::vector<OperationTimes>& operations);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_PROFILE_STEP_TIMES_H_
