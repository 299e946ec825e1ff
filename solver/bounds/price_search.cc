#include "solver/bounds/price_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace stowage {
namespace {

// The directions in which the best prices lie: copies that compete with forwards, with backwards,
// copies that return in gaps.
constexpr EvenLinkPrices kEven[] = {{0.13, 0.13 / 13, 0.13 / 10},
                                    {0.05, 0.05 / 13, 0.05 / 10},
                                    {0.3, 0.3 / 13, 0.3 / 10},
                                    {0, 0, 0.5},
                                    {0.02, 0.05, 0.05}};
// Prices that are best of some short chains.
constexpr EvenLinkPrices kRarerEven[] = {
    {0, 0, 1}, {0, 0, 0.25}, {0, 0.28, 0.34}, {0.5, 0.03, 0.04}};
constexpr int kManyEvaluations = 20;

// Moves the values to the nearest ones from 0 to 1 that never fall: pools of neighbours that fall
// take their mean.
void MakeRise(std::span<double> values) {
  struct Pool {
    double mean = 0;
    size_t size = 0;
  };
  std::vector<Pool> pools;
  for (const double value : values) {
    pools.push_back({value, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean > pools.back().mean) {
      const Pool last = pools.back();
      pools.pop_back();
      Pool& joined = pools.back();
      const size_t size = joined.size + last.size;
      joined.mean = (joined.mean * static_cast<double>(joined.size) +
                     last.mean * static_cast<double>(last.size)) /
                    static_cast<double>(size);
      joined.size = size;
    }
  }
  auto value = values.begin();
  for (const Pool& pool : pools)
    value = std::fill_n(value, pool.size, std::clamp(pool.mean, 0.0, 1.0));
}

// The nearest prices, about, that meet what LinkPrices requires.
void MakeValid(LinkPrices* prices) {
  MakeRise(std::span(prices->forward).subspan(1));
  // Backwards up to the loss's, then gaps down to the one before stage 1, rise as one.
  std::vector<double> rising(prices->backward.begin() + 1, prices->backward.end());
  const size_t loss = rising.size();
  for (size_t l = loss - 1; l >= 1; --l) rising.push_back(prices->gap[l]);
  MakeRise(rising);
  std::copy_n(rising.begin(), loss, prices->backward.begin() + 1);
  for (size_t l = 1; l < loss; ++l) prices->gap[l] = rising[rising.size() - l];
  prices->gap[0] = loss > 1 ? prices->gap[1] : 0;
  prices->gap[loss] = prices->backward[loss];
  prices->held = std::max(0.0, prices->held);
}

// prices += factor * other
void Add(const LinkPrices& other, double factor, LinkPrices* prices) {
  for (size_t l = 1; l < prices->forward.size(); ++l) {
    prices->forward[l] += factor * other.forward[l];
    prices->backward[l] += factor * other.backward[l];
    prices->gap[l] += factor * other.gap[l];
  }
  prices->held += factor * other.held;
}

double SquaredLength(const LinkPrices& slopes) {
  double sum = slopes.held * slopes.held;
  for (size_t l = 1; l < slopes.forward.size(); ++l) {
    sum += slopes.forward[l] * slopes.forward[l] + slopes.backward[l] * slopes.backward[l] +
           slopes.gap[l] * slopes.gap[l];
  }
  return sum;
}

}  // namespace

PriceSearch::PriceSearch(const Chain& chain, const Platform& platform, PricedRecurrence* recurrence,
                         const Limits& limits, const std::stop_token& stop)
    : chain_(chain),
      platform_(platform),
      recurrence_(recurrence),
      max_seconds_(limits.max_seconds),
      left_(limits.evaluations),
      stop_(stop),
      best_(chain.length()) {}

bool PriceSearch::Ends() const {
  return left_ <= 0 || best_seconds_ >= max_seconds_ || stop_.stop_requested();
}

double PriceSearch::Evaluate(const LinkPrices& prices) {
  --left_;
  const double seconds = recurrence_->SecondsAt(prices, stop_);
  if (std::isfinite(seconds) && seconds > best_seconds_) {
    best_seconds_ = seconds;
    best_ = prices;
  }
  return seconds;
}

void PriceSearch::RunEven() {
  constexpr double kFirstStep = 0.4;
  for (const EvenLinkPrices& prices : kEven) TryEven(prices);
  if (left_ > kManyEvaluations) {
    for (const EvenLinkPrices& prices : kRarerEven) TryEven(prices);
  }
  RefineEven(kFirstStep);
}

void PriceSearch::RunEvenFrom(const EvenLinkPrices& prices) {
  constexpr double kFirstStep = 0.15;
  TryEven(prices);
  RefineEven(kFirstStep);
}

void PriceSearch::RefineEven(double first_step) {
  for (double step = first_step; step > 0.02 && left_ > 0; step *= 0.6) {
    while (StepEven(step)) {
    }
  }
}

// Whether one of the neighbours at this relative distance is better; moves there.
bool PriceSearch::StepEven(double step) {
  const EvenLinkPrices from = best_even_;
  const double offload = step * std::max(from.offload, 0.01);
  const double rest = step * std::max(from.backward, 0.01);
  const double gap = step * std::max(from.gap, 0.05);
  for (const double by : {-1, 1}) {
    if (TryEven({from.offload + by * offload, from.backward, from.gap})) return true;
    if (TryEven({from.offload, from.backward + by * rest, from.gap + by * rest})) return true;
    if (TryEven({from.offload, from.backward, from.gap + by * gap})) return true;
  }
  return false;
}

// Whether they are better than all others so far.
bool PriceSearch::TryEven(EvenLinkPrices prices) {
  if (Ends()) return false;
  prices.offload = std::clamp(prices.offload, 0.0, 1.0);
  prices.backward = std::clamp(prices.backward, 0.0, 1.0);
  prices.gap = std::clamp(prices.gap, prices.backward, 1.0);
  const double before = best_seconds_;
  Evaluate(PricesOf(prices, chain_.length(), platform_));
  if (best_seconds_ <= before) return false;
  best_even_ = prices;
  return true;
}

void PriceSearch::Climb(const LinkPrices& from, int evaluations) {
  constexpr double kShareKept = 0.6;       // of the last direction
  constexpr double kEnoughOfTarget = 0.1;  // of the way there; less than that is no rise
  constexpr int kPatience = 15;            // steps without one
  constexpr double kLeastTarget = 2e-5;
  if (!std::isfinite(max_seconds_)) return;
  LinkPrices at = from;
  LinkPrices top = from;
  LinkPrices direction(chain_.length());
  double top_seconds = 0;
  double ahead = 0;  // of the target before `top_seconds`
  int waited = 0;
  for (; evaluations > 0 && !Ends(); --evaluations) {
    const double seconds = Evaluate(at);
    if (!std::isfinite(seconds) || Ends()) return;
    if (ahead == 0) ahead = std::max(0.0, max_seconds_ - seconds) / 4;
    const bool rose = seconds > top_seconds + kEnoughOfTarget * ahead;
    if (seconds > top_seconds) {
      top_seconds = seconds;
      top = at;
    }
    waited = rose ? 0 : waited + 1;
    if (waited >= kPatience) {
      waited = 0;
      ahead /= 2;
      if (ahead < kLeastTarget * max_seconds_) return;
      at = top;
      direction = LinkPrices(chain_.length());
      continue;
    }
    LinkPrices slopes = recurrence_->Slopes();
    Add(direction, kShareKept, &slopes);
    direction = std::move(slopes);
    const double length = SquaredLength(direction);
    if (length == 0) return;
    Add(direction, (top_seconds + ahead - seconds) / length, &at);
    MakeValid(&at);
  }
}

LinkPrices PricesOfLastGap(int stages) {
  constexpr double kForward = 0.05;
  LinkPrices prices(stages);
  std::fill(prices.forward.begin(), prices.forward.end(), kForward);
  prices.gap[0] = prices.gap[1] = 1;
  return prices;
}

}  // namespace stowage
