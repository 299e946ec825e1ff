#include "client/torch/profile/step_times.h"

#include <gtest/gtest.h>

#include <vector>

#include "gmock/gmock.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SecondsInAStep, AreTheDevicesWhereTheHostIsAhead) {
  EXPECT_THAT(SecondsInAStep({{1, 4}, {1, 2}, {1, 8}}), ElementsAre(4, 2, 8));
}

TEST(SecondsInAStep, AreTheHostsWhereTheDeviceWaits) {
  EXPECT_THAT(SecondsInAStep({{4, 1}, {2, 1}, {8, 0}}), ElementsAre(4, 2, 8));
}

TEST(SecondsInAStep, UseUpTheLeadOfTheHost) {
  // Enqueued at 1, 5, 9, 13; ended at 7, 8, 9, 13: the lead of 6 lasts for two operations.
  EXPECT_THAT(SecondsInAStep({{1, 7}, {4, 1}, {4, 1}, {4, 1}}), ElementsAre(7, 1, 1, 4));
}

TEST(SecondsInAStep, OfNoOperationsAreNone) { EXPECT_THAT(SecondsInAStep({}), IsEmpty()); }

// Runs of the device seconds, each of which took the host 1 s.
OperationRuns Runs(const std::vector<double>& device_seconds) {
  OperationRuns runs;
  for (const double seconds : device_seconds) runs.push_back({1, seconds});
  return runs;
}

std::vector<double> DeviceSeconds(const std::vector<OperationTimes>& operations) {
  std::vector<double> seconds;
  for (const OperationTimes& operation : operations) seconds.push_back(operation.device_seconds);
  return seconds;
}

TEST(PooledMedians, AreOfAllRunsOfTheSameWork) {
  const std::vector<OperationRuns> runs = {Runs({10, 11, 90}), Runs({20, 20, 20}),
                                           Runs({12, 13, 14})};
  EXPECT_THAT(DeviceSeconds(PooledMedians(runs, {"block", "other", "block"})),
              ElementsAre(13, 20, 13));
}

TEST(PooledMedians, LeaveUnknownWorkAlone) {
  EXPECT_THAT(DeviceSeconds(PooledMedians({Runs({10}), Runs({11})}, {"", ""})),
              ElementsAre(10, 11));
}

// Pooling over windows of other sizes has the same graph and the same bytes.
TEST(PooledMedians, LeaveAloneWhatIsFarFromItsFellows) {
  const std::vector<OperationRuns> runs = {Runs({10}), Runs({40}), Runs({12}), Runs({4}),
                                           Runs({11})};
  EXPECT_THAT(DeviceSeconds(PooledMedians(runs, {"p", "p", "p", "p", "p"})),
              ElementsAre(11, 40, 11, 4, 11));
}

}  // namespace
}  // namespace stowage
