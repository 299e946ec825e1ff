#include "solver/bounds/price_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
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

double Product(const LinkPrices& a, const LinkPrices& b) {
  double sum = a.held * b.held;
  for (size_t l = 1; l < a.forward.size(); ++l) {
    sum += a.forward[l] * b.forward[l] + a.backward[l] * b.backward[l] + a.gap[l] * b.gap[l];
  }
  return sum;
}

// Planes that the bound is nowhere above, since it is concave: one of each evaluation. Their
// weights are 0 or more and add up to 1.
class Planes {
 public:
  explicit Planes(int stages) : mean_slopes_(stages) {}

  // Of prices at which the bound is `seconds`.
  void Add(double seconds, const LinkPrices& at, LinkPrices slopes);

  // Maximizes, about, the lowest plane at x - |x - center|^2 / (2 * step) over all valid prices x.
  LinkPrices Best(const LinkPrices& center, double step);

  // The lowest plane.
  double SecondsAt(const LinkPrices& prices) const;

 private:
  struct Plane {
    double base = 0;  // at prices of 0
    LinkPrices slopes;
    double weight = 0;
  };
  struct Extremes {
    size_t lowest = 0;
    size_t highest = 0;  // of those with a weight
    double difference = 0;
    bool close = false;
  };

  double SecondsOf(const Plane& plane, const LinkPrices& prices) const {
    return plane.base + Product(plane.slopes, prices);
  }
  Extremes ExtremesAt(const LinkPrices& prices) const;
  void Move(const Extremes& extremes, double step);
  void DropLightest();

  std::vector<Plane> planes_;
  LinkPrices mean_slopes_;  // by weight
};

void Planes::Add(double seconds, const LinkPrices& at, LinkPrices slopes) {
  constexpr size_t kMostPlanes = 60;
  if (planes_.size() == kMostPlanes) DropLightest();
  if (planes_.empty()) mean_slopes_ = slopes;
  const double base = seconds - Product(slopes, at);
  planes_.push_back({base, std::move(slopes), planes_.empty() ? 1.0 : 0.0});
}

// By the dual: x is the valid prices nearest to center + step * the mean of the slopes, for the
// weights at which no plane is below the mean of all. Weight moves from the highest plane at x to
// the lowest one until that is so.
LinkPrices Planes::Best(const LinkPrices& center, double step) {
  constexpr int kMoves = 400;
  LinkPrices at = center;
  for (int i = 0; i < kMoves; ++i) {
    at = center;
    ::stowage::Add(mean_slopes_, step, &at);
    MakeValid(&at);
    const Extremes extremes = ExtremesAt(at);
    if (extremes.close) break;
    Move(extremes, step);
  }
  return at;
}

double Planes::SecondsAt(const LinkPrices& prices) const {
  double least = std::numeric_limits<double>::infinity();
  for (const Plane& plane : planes_) least = std::min(least, SecondsOf(plane, prices));
  return least;
}

Planes::Extremes Planes::ExtremesAt(const LinkPrices& prices) const {
  constexpr double kClose = 1e-7;
  Extremes extremes;
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (size_t i = 0; i < planes_.size(); ++i) {
    const double seconds = SecondsOf(planes_[i], prices);
    if (seconds < least) {
      least = seconds;
      extremes.lowest = i;
    }
    if (planes_[i].weight > 0 && seconds > most) {
      most = seconds;
      extremes.highest = i;
    }
  }
  extremes.difference = most - least;
  extremes.close = extremes.difference <= kClose * std::abs(least);
  return extremes;
}

// As far as the dual falls, and no weight below 0.
void Planes::Move(const Extremes& extremes, double step) {
  Plane& from = planes_[extremes.highest];
  Plane& to = planes_[extremes.lowest];
  LinkPrices turn = to.slopes;
  ::stowage::Add(from.slopes, -1, &turn);
  const double moved = std::min(from.weight, extremes.difference / (step * Product(turn, turn)));
  from.weight = moved == from.weight ? 0 : from.weight - moved;
  to.weight += moved;
  ::stowage::Add(turn, moved, &mean_slopes_);
}

// But not the last one.
void Planes::DropLightest() {
  const auto lightest =
      std::min_element(planes_.begin(), planes_.end() - 1,
                       [](const Plane& a, const Plane& b) { return a.weight < b.weight; });
  Plane& last = planes_.back();
  ::stowage::Add(last.slopes, lightest->weight, &mean_slopes_);
  ::stowage::Add(lightest->slopes, -lightest->weight, &mean_slopes_);
  last.weight += lightest->weight;
  planes_.erase(lightest);
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
  constexpr double kEnough = 0.1;  // of what the planes promise
  constexpr double kMuch = 0.5;
  constexpr double kLeastPromise = 1e-6;
  constexpr int kPatience = 4;   // steps without enough
  constexpr int kMaxLonger = 8;  // steps that promise too little, each longer than the one before
  if (!std::isfinite(max_seconds_) || evaluations <= 0 || Ends()) return;
  LinkPrices center = from;
  double seconds = Evaluate(center);
  if (!std::isfinite(seconds) || Ends()) return;
  LinkPrices slopes = recurrence_->Slopes();
  const double length = Product(slopes, slopes);
  if (length == 0) return;
  double step = (max_seconds_ - seconds) / length;
  Planes planes(chain_.length());
  planes.Add(seconds, center, std::move(slopes));
  int waited = 0;
  int longer = 0;
  while (--evaluations > 0) {
    LinkPrices next = planes.Best(center, step);
    double promise = planes.SecondsAt(next) - seconds;
    for (; promise <= kLeastPromise * max_seconds_; ++longer) {
      if (longer == kMaxLonger) return;
      step *= 4;
      next = planes.Best(center, step);
      promise = planes.SecondsAt(next) - seconds;
    }
    const double reached = Evaluate(next);
    if (!std::isfinite(reached) || Ends()) return;
    planes.Add(reached, next, recurrence_->Slopes());
    if (reached >= seconds + kEnough * promise) {
      if (reached >= seconds + kMuch * promise) step *= 2;
      seconds = reached;
      center = std::move(next);
      waited = longer = 0;
    } else if (++waited == kPatience) {
      step /= 2;
      waited = 0;
    }
  }
}

}  // namespace stowage
