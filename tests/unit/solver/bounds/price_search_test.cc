#include "solver/bounds/price_search.h"

#include <gtest/gtest.h>

#include <stop_token>

#include "solver/bounds/memory_range.h"
#include "solver/bounds/priced_recurrence.h"
#include "solver/model/modes.h"
#include "tests/support/chains.h"
#include "tests/support/profiles.h"

namespace stowage {
namespace {

// A profile within 5 % of its range, with a half-duplex link.
class PriceSearchTest : public testing::Test {
 protected:
  PriceSearch Search(int evaluations) {
    return {chain_, platform_, &recurrence_, {2 * ComputeSeconds(chain_), evaluations}, stop_};
  }

  static Platform LinkTo(const Chain& chain) {
    const int64_t low = FloorOfMemory(chain).bytes;
    Platform platform = Memory(low + (StoreAllPeakBytes(chain) - low) / 20);
    platform.offload_bytes_per_second = 12e9;
    platform.half_duplex = true;
    return platform;
  }

  const Chain chain_ = LoadProfile("pipedream-nasnetalarge-16-224");
  const Platform platform_ = LinkTo(chain_);
  PricedRecurrence recurrence_{chain_, platform_, 32};
  std::stop_token stop_;
};

TEST_F(PriceSearchTest, PricesThatDifferFromStageToStageAreBetterThanEvenOnes) {
  PriceSearch even = Search(40);
  even.RunEven();
  PriceSearch climb = Search(30);
  climb.Climb(even.best(), 30);
  EXPECT_GT(climb.best_seconds(), 1.005 * even.best_seconds());
}

// The bound is concave, so it has one top.
TEST_F(PriceSearchTest, ClimbsToTheSameTopFromAnywhere) {
  constexpr int kMany = 300;
  PriceSearch from_nothing = Search(kMany);
  from_nothing.Climb(LinkPrices(chain_.length()), kMany);
  PriceSearch even = Search(40);
  even.RunEven();
  PriceSearch from_even = Search(kMany);
  from_even.Climb(even.best(), kMany);
  EXPECT_NEAR(from_nothing.best_seconds() / from_even.best_seconds(), 1, 5e-4);
}

TEST_F(PriceSearchTest, EqualSearchesFindEqualPrices) {
  PriceSearch first = Search(20);
  first.Climb(LinkPrices(chain_.length()), 20);
  PriceSearch second = Search(20);
  second.Climb(LinkPrices(chain_.length()), 20);
  EXPECT_EQ(first.best_seconds(), second.best_seconds());
  EXPECT_EQ(first.best().forward, second.best().forward);
}

TEST_F(PriceSearchTest, NeverTakesMoreEvaluationsThanItIsAllowed) {
  PriceSearch none = Search(20);
  none.Climb(LinkPrices(chain_.length()), 0);
  EXPECT_EQ(none.best_seconds(), 0);
  PriceSearch one = Search(1);
  one.Climb(LinkPrices(chain_.length()), 20);
  EXPECT_EQ(one.best_seconds(), recurrence_.SecondsAt(LinkPrices(chain_.length())));
}

}  // namespace
}  // namespace stowage
