#include "solver/bounds/recurrence_bound.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

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

// Prices that are best of some short chains.
constexpr LinkPrices kRarerPrices[] = {{0, 0, 1}, {0, 0, 0.25}, {0, 0.28, 0.34}, {0.5, 0.03, 0.04}};
constexpr int kManyEvaluations = 20;

// Search for the prices of the largest bound.
class PriceSearch {
 public:
  // Ends where the bound is `enough_seconds`.
  PriceSearch(PricedRecurrence* recurrence, int evaluations, double enough_seconds,
              const std::stop_token& stop)
      : recurrence_(recurrence), left_(evaluations), enough_seconds_(enough_seconds), stop_(stop) {}

  // The directions in which the best prices lie: copies that compete with forwards, with backwards,
  // copies that return in gaps. Then a search around the best, by ever smaller steps.
  void Run() {
    for (const double price : {0.13, 0.05, 0.3}) {
      Try({.offload = price, .backward = price / 13, .gap = price / 10});
    }
    Try({.gap = 0.5});
    Try({0.02, 0.05, 0.05});
    if (left_ > kManyEvaluations) {
      for (const LinkPrices& rarer : kRarerPrices) Try(rarer);
    }
    Refine(0.4);
  }
  // The same search around prices that are known to be good.
  void RunFrom(const LinkPrices& prices) {
    Try(prices);
    Refine(0.15);
  }

  double best_seconds() const { return best_seconds_; }
  const LinkPrices& best() const { return best_; }

 private:
  void Refine(double first_step) {
    for (double step = first_step; step > 0.02 && left_ > 0; step *= 0.6) {
      while (Step(step)) {
      }
    }
  }

  // Whether one of the neighbours at this relative distance is better; moves there.
  bool Step(double step) {
    const LinkPrices from = best_;
    const double offload = step * std::max(from.offload, 0.01);
    const double rest = step * std::max(from.backward, 0.01);
    const double gap = step * std::max(from.gap, 0.05);
    for (const double by : {-1, 1}) {
      if (Try({from.offload + by * offload, from.backward, from.gap})) return true;
      if (Try({from.offload, from.backward + by * rest, from.gap + by * rest})) return true;
      if (Try({from.offload, from.backward, from.gap + by * gap})) return true;
    }
    return false;
  }

  bool Try(LinkPrices prices) {
    if (left_ <= 0 || best_seconds_ >= enough_seconds_ || stop_.stop_requested()) return false;
    prices.offload = std::clamp(prices.offload, 0.0, 1.0);
    prices.backward = std::clamp(prices.backward, 0.0, 1.0);
    prices.gap = std::clamp(prices.gap, prices.backward, 1.0);
    --left_;
    const double seconds = recurrence_->SecondsAt(prices);
    if (!std::isfinite(seconds) || seconds <= best_seconds_) return false;
    best_seconds_ = seconds;
    best_ = prices;
    return true;
  }

  PricedRecurrence* const recurrence_;
  int left_;
  const double enough_seconds_;
  const std::stop_token& stop_;
  LinkPrices best_;
  double best_seconds_ = 0;
};

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
    const int64_t levels =
        std::min(step.max_levels, LevelsWithin(step.work, chain, /*has_link=*/false));
    if (known.max_seconds <= least * (1 + step.min_gap) || levels < kMinLevels) continue;
    if (levels <= tried || stop.stop_requested()) continue;
    tried = levels;
    const double seconds = PricedRecurrence(chain, platform, levels).SecondsAt({}, stop);
    if (std::isfinite(seconds)) best = std::max(best, seconds);
  }
  return best;
}

}  // namespace

double RecurrenceBoundSeconds(const Chain& chain, const Platform& platform, const KnownRange& known,
                              const std::stop_token& stop) {
  if (stop.stop_requested()) return 0;
  if (!platform.has_link()) return BoundWithoutLink(chain, platform, known, stop);
  // About a tenth of what `auto` takes, which grows faster than the length. Good prices on few
  // levels are good prices on many, and all prices give a bound.
  constexpr double kWorkOfAStage = 2e6;
  constexpr double kSearchShare = 0.6;
  constexpr int64_t kSearchLevels = 32;
  constexpr double kMaxSearches = 40;
  constexpr double kMinSearches = 4;
  constexpr int kEvaluations = 3;
  constexpr int64_t kEnoughLevels = 512;
  const double work = kWorkOfAStage * (chain.length() + 1);
  const double one = PricedRecurrence::Work(chain.length(), kSearchLevels, true);
  const double searches = std::min(kMaxSearches, kSearchShare * work / one);
  if (searches < kMinSearches) return 0;
  PricedRecurrence coarse(chain, platform, kSearchLevels);
  PriceSearch search(&coarse, static_cast<int>(searches), known.max_seconds, stop);
  search.Run();
  const int64_t levels =
      LevelsWithin((work - std::floor(searches) * one) / kEvaluations, chain, true);
  PricedRecurrence fine(chain, platform, std::clamp(levels, kMinLevels, kEnoughLevels));
  PriceSearch refinement(&fine, kEvaluations, known.max_seconds, stop);
  refinement.RunFrom(search.best());
  return std::max(search.best_seconds(), refinement.best_seconds());
}

}  // namespace stowage
