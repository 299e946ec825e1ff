#include "solver/bounds/recurrence_bound.h"

#include <gtest/gtest.h>

#include <stop_token>

#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/bounds/priced_recurrence.h"
#include "solver/model/modes.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/profiles.h"

namespace stowage {
namespace {

double RotorSeconds(const Chain& chain, int64_t memory_bytes) {
  const auto answer = AnswerRequest({chain, Memory(memory_bytes), "rotor", {}}, {});
  if (!answer.ok() || answer->outcome == Outcome::kInfeasible) return 0;
  return answer->prediction.makespan_seconds;
}

// Within the least memory early stages run three times and more. A cut counts each once more.
TEST(RecurrenceBound, CountsForwardsThatRunAgainMoreThanOnce) {
  const Chain chain = EqualChain(8);
  int64_t least = FloorOfMemory(chain).bytes;
  while (RotorSeconds(chain, least) == 0) ++least;
  const double rotor = RotorSeconds(chain, least);
  ASSERT_GT(rotor, LowerBoundSeconds(chain, Memory(least)) + 5);
  EXPECT_DOUBLE_EQ(RecurrenceBoundSeconds(chain, Memory(least)), rotor);
}

// Equal outputs: no schedule is faster than the best nested persistent one.
TEST(RecurrenceBound, EqualsRotorOnEqualStages) {
  const Chain chain = EqualChain(12);
  const int64_t least = FloorOfMemory(chain).bytes;
  for (int64_t memory = least; memory <= StoreAllPeakBytes(chain); memory += 10) {
    EXPECT_DOUBLE_EQ(RecurrenceBoundSeconds(chain, Memory(memory)), RotorSeconds(chain, memory))
        << memory;
  }
}

// A small output early in the chain may wait in place of a later, larger one.
TEST(RecurrenceBound, AllowsForSchedulesThatAreNotPersistent) {
  for (const int n : {2, 5, 9}) {
    EXPECT_LE(RecurrenceBoundSeconds(NonPersistentChain(n), Memory(9)), 2 * n + 4) << n;
  }
}

TEST(RecurrenceBound, IsAllComputationWhereEverythingFits) {
  Chain chain = EqualChain(5);
  chain.loss.forward_seconds = 0.5;
  Platform platform = Memory(StoreAllPeakBytes(chain));
  EXPECT_DOUBLE_EQ(RecurrenceBoundSeconds(chain, platform), ComputeSeconds(chain));
  platform.offload_bytes_per_second = 3;
  EXPECT_DOUBLE_EQ(RecurrenceBoundSeconds(chain, platform), ComputeSeconds(chain));
}

TEST(RecurrenceBound, IsZeroWhereNothingFitsAndForLongChains) {
  const Chain chain = EqualChain(5);
  EXPECT_EQ(RecurrenceBoundSeconds(chain, Memory(FloorOfMemory(chain).bytes - 1)), 0);
  const Chain longer = EqualChain(450);
  EXPECT_EQ(RecurrenceBoundSeconds(longer, Memory(FloorOfMemory(longer).bytes)), 0);
}

// Few levels are enough for stages of the same size. No time is spent where little is to be gained.
TEST(RecurrenceBound, BoundsALongChainWhereTheGapIsWide) {
  const Chain chain = EqualChain(200);
  const Platform platform = Memory(StoreAllPeakBytes(chain) / 20);
  const double rotor = RotorSeconds(chain, platform.memory_bytes);
  const double cuts = LowerBoundSeconds(chain, platform);
  ASSERT_GT(rotor, 1.05 * cuts);
  EXPECT_GT(RecurrenceBoundSeconds(chain, platform, {cuts, rotor}), (cuts + rotor) / 2);
  EXPECT_EQ(RecurrenceBoundSeconds(chain, platform, {0.99 * rotor, rotor}), 0);
}

// Every second stage takes no time and saves its output only; every backward takes none. Few levels
// are enough if they fit the sizes.
TEST(RecurrenceBound, ProvesAScheduleOfFreeBackwards) {
  const Chain chain = LoadProfile("cases/colossalai-free-backwards");
  const int64_t low = FloorOfMemory(chain).bytes;
  const int64_t high = StoreAllPeakBytes(chain);
  for (const int percent : {5, 20}) {
    const auto answer =
        AnswerRequest({chain, Memory(low + (high - low) / 100 * percent), "rotor", {}}, {});
    ASSERT_TRUE(answer.ok());
    EXPECT_LT(answer->prediction.gap, 1e-9) << percent;
  }
}

// What cannot run again has to leave. Without gradients, BACKWARD 3 needs values 2 and 3, 60 bytes:
// value 1 leaves, and has no room beside it on its way back. The two copies of 30 bytes take 6 s;
// forwards 2 and 3 last 2 s.
TEST(RecurrenceBound, CountsReturnsThatHaveNoRoomBesideABackward) {
  Chain chain = EqualChain(3);
  for (Stage& stage : chain.stages) {
    stage.no_recompute = true;
    stage.gradient_bytes = 0;
  }
  chain.input_bytes = 0;
  Platform platform = Memory(60);
  platform.offload_bytes_per_second = 10;
  const double seconds = RecurrenceBoundSeconds(chain, platform);
  EXPECT_GE(seconds, ComputeSeconds(chain) + 3 - 1e-9);  // the PREFETCH, in gap 2
  Platform roomy = platform;
  roomy.memory_bytes = 90;
  EXPECT_LT(RecurrenceBoundSeconds(chain, roomy), seconds);
}

// But for what rounding sizes to levels loses.
TEST(RecurrenceBound, HardlyGrowsWithMemoryWithoutALink) {
  const Chain chain = LoadProfile("torchvision-resnet50-32-224");
  const int64_t low = FloorOfMemory(chain).bytes;
  const int64_t high = StoreAllPeakBytes(chain);
  double before = 0;
  for (int step = 2; step <= 40; ++step) {
    const double seconds = RecurrenceBoundSeconds(chain, Memory(low + (high - low) / 40 * step));
    EXPECT_GT(seconds, 0);
    EXPECT_TRUE(before == 0 || seconds <= 1.001 * before) << step;
    before = seconds;
  }
}

// Sizes are rounded down to levels. In equal stages every value loses the same by it.
TEST(RecurrenceBound, FewLevelsFitTheSizesOfEqualStages) {
  for (const int64_t bytes : {1'000'003, 1'300'007, 1'700'021}) {
    Chain chain = EqualChain(60);
    chain.input_bytes *= bytes;
    for (Stage& stage : chain.stages) {
      stage.output_bytes *= bytes;
      stage.saved_bytes *= bytes;
    }
    Platform platform = Memory(StoreAllPeakBytes(chain) / 3);
    platform.offload_bytes_per_second = 0.5 * static_cast<double>(bytes);
    const LinkPrices prices = PricesOf({0.02, 0.02, 0.02}, chain.length(), platform);
    const double few = PricedRecurrence(chain, platform, 64).SecondsAt(prices);
    const double many = PricedRecurrence(chain, platform, 1024).SecondsAt(prices);
    const double compute = ComputeSeconds(chain);
    ASSERT_GT(many, compute);
    EXPECT_GT(few - compute, 0.99 * (many - compute)) << bytes;
  }
}

TEST(RecurrenceBound, EndsOnceItIsStopped) {
  const Chain chain = EqualChain(5);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(RecurrenceBoundSeconds(chain, Memory(200), {}, stop.get_token()), 0);
}

// On a real network the closer bound proves rotor's schedule.
TEST(RecurrenceBound, ProvesRotorOnARealNetwork) {
  const Chain chain = LoadProfile("torchvision-resnet101-32-224");
  const int64_t low = FloorOfMemory(chain).bytes;
  const Platform platform = Memory(low + (StoreAllPeakBytes(chain) - low) / 20);
  const auto answer = AnswerRequest({chain, platform, "rotor", {}}, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_LT(answer->prediction.gap, 0.01);
  EXPECT_GT(answer->prediction.makespan_seconds / LowerBoundSeconds(chain, platform) - 1, 0.04);
}

}  // namespace
}  // namespace stowage
