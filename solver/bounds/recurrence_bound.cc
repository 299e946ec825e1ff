#include "solver/bounds/recurrence_bound.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "solver/bounds/price_search.h"
#include "solver/bounds/priced_recurrence.h"

namespace stowage {
namespace {

// Fewer levels round too much away.
constexpr int64_t kMinLevels = 64;
constexpr int64_t kMaxLevels = 4096;

// The levels that `work` additions allow.
int64_t LevelsWithin(double work, const Chain& chain, bool has_link) {
  const double one = PricedRecurrence::Work(chain.length(), 1, has_link);
  return static_cast<int64_t>(std::min(work / one, static_cast<double>(kMaxLevels)));
}

// The levels whose tables take 256 MB without a link.
int64_t MostLevels(const Chain& chain) {
  constexpr double kMaxBytes = 256e6;
  const double parts = (chain.length() + 1.0) * (chain.length() + 2.0) / 2;
  return static_cast<int64_t>(kMaxBytes / (parts * 2 * sizeof(double)));
}

// On ever more levels, until the bound meets the known makespan or, for the last step, is close.
double BoundWithoutLink(const Chain& chain, const Platform& platform, const KnownRange& known,
                        const std::stop_token& stop) {
  struct Step {
    BoundTime time;
    double work;
    double min_gap;  // taken only where the gap is wider
    int64_t max_levels;
  };
  // Few levels of a long chain take a multiple of the time: the last step is for wide gaps.
  constexpr Step kSteps[] = {{BoundTime::kShort, 8e6, 0, kMaxLevels},
                             {BoundTime::kShort, 25e6, 0, kMaxLevels},
                             {BoundTime::kLong, 75e6, 0.002, kMaxLevels},
                             {BoundTime::kLong, 1.6e9, 0.05, kMinLevels}};
  double best = 0;
  int64_t tried = 0;
  for (const Step& step : kSteps) {
    if (step.time > known.time) break;
    const double least = std::max(best, known.min_seconds);
    const int64_t levels = std::min(
        {step.max_levels, LevelsWithin(step.work, chain, /*has_link=*/false), MostLevels(chain)});
    if (known.max_seconds <= least * (1 + step.min_gap) || levels < kMinLevels) continue;
    if (levels <= tried || stop.stop_requested()) continue;
    tried = levels;
    const double seconds =
        PricedRecurrence(chain, platform, levels).SecondsAt(LinkPrices(chain.length()), stop);
    if (std::isfinite(seconds)) best = std::max(best, seconds);
  }
  return best;
}

// Good prices on few levels are good prices on many, and all prices give a bound. About a tenth of
// what `auto` takes, which grows faster than the length.
double BoundWithLink(const Chain& chain, const Platform& platform, const KnownRange& known,
                     const std::stop_token& stop) {
  constexpr double kWorkOfAStage = 2e6;
  constexpr double kSearchShare = 0.6;
  constexpr int64_t kSearchLevels = 32;
  constexpr double kMaxSearches = 40;
  constexpr int kMinSearches = 4;
  constexpr int kMinClimb = 12;  // searches, of which some climb
  constexpr double kEvenShare = 0.4;
  constexpr int kEvaluations = 3;
  constexpr int64_t kEnoughLevels = 512;
  const double work = kWorkOfAStage * (chain.length() + 1);
  const double one = PricedRecurrence::Work(chain.length(), kSearchLevels, true);
  const int searches = static_cast<int>(std::min(kMaxSearches, kSearchShare * work / one));
  if (searches < kMinSearches) return 0;
  PricedRecurrence coarse(chain, platform, kSearchLevels);
  const bool climbs = searches >= kMinClimb && std::isfinite(known.max_seconds);
  const int even = climbs ? static_cast<int>(kEvenShare * searches) : searches;
  PriceSearch search(chain, platform, &coarse, {known.max_seconds, even}, stop);
  search.RunEven();
  PriceSearch climb(chain, platform, &coarse, {known.max_seconds, searches - even}, stop);
  climb.Climb(search.best(), searches - even);
  const int64_t levels = LevelsWithin((work - searches * one) / kEvaluations, chain, true);
  PricedRecurrence fine(chain, platform, std::clamp(levels, kMinLevels, kEnoughLevels));
  PriceSearch refinement(chain, platform, &fine, {known.max_seconds, kEvaluations}, stop);
  if (climb.best_seconds() > search.best_seconds()) {
    refinement.Climb(climb.best(), kEvaluations);
  } else {
    refinement.RunEvenFrom(search.best_even());
  }
  return std::max({search.best_seconds(), climb.best_seconds(), refinement.best_seconds()});
}

}  // namespace

double RecurrenceBoundSeconds(const Chain& chain, const Platform& platform, const KnownRange& known,
                              const std::stop_token& stop) {
  if (stop.stop_requested()) return 0;
  return platform.has_link() ? BoundWithLink(chain, platform, known, stop)
                             : BoundWithoutLink(chain, platform, known, stop);
}

}  // namespace stowage
