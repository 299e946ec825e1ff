// What arenas and pools take on real chains.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "client/agent/plan.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/layouts.h"
#include "tests/support/profiles.h"
#include "tests/support/status_matchers.h"
#include "tests/support/transfers.h"

namespace stowage {
namespace {

class EveryProfilesPlan : public testing::TestWithParam<std::string> {};

// Overheads apart.
TEST_P(EveryProfilesPlan, IsLaidOutWithinThreePercentOfItsPeak) {
  Chain chain = LoadProfile(GetParam());
  for (Stage& stage : chain.stages)
    stage.forward_overhead_bytes = stage.backward_overhead_bytes = 0;
  const int64_t low = FloorOfMemory(chain).bytes;
  const int64_t high = StoreAllPeakBytes(chain);
  std::mt19937 random(1);
  for (const char* solver : {"rotor", "periodic", "revolve"}) {
    for (const int percent : {5, 50}) {
      const auto answer =
          AnswerRequest({chain, Memory(low + (high - low) / 100 * percent), solver, {}}, {});
      ASSERT_THAT(answer, IsOk());
      if (answer->outcome == Outcome::kInfeasible) continue;
      for (const double share : {0.0, 0.2}) {
        const Schedule schedule = WithTransfers(chain, answer->schedule, share, &random);
        Platform platform = Memory(high);
        platform.offload_bytes_per_second = 1e10;
        const auto plan = MakeArenaPlan(chain, platform, schedule);
        ASSERT_THAT(plan, IsOk());
        ExpectSound(plan->device.blocks, plan->device.layout, 256);
        ExpectSound(plan->host.blocks, plan->host.layout, 256);
        const auto share_above = [](const Layout& layout, int64_t peak) {
          return static_cast<double>(layout.bytes) / static_cast<double>(peak) - 1;
        };
        EXPECT_LE(share_above(plan->device.layout, plan->prediction.peak_memory_bytes), 0.03)
            << solver << " at " << percent << " %, offloaded " << share;
        if (plan->prediction.peak_host_bytes == 0) continue;
        EXPECT_LE(share_above(plan->host.layout, plan->prediction.peak_host_bytes), 0.03)
            << solver << " at " << percent << " %, offloaded " << share;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, EveryProfilesPlan, testing::ValuesIn(SampledProfiles()),
                         [](const testing::TestParamInfo<std::string>& profile) {
                           std::string name = profile.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace stowage
