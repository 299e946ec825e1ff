#include "solver/kernels/min_sum.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "solver/kernels/min_sum.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stowage {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A block of levels k stays in registers while d (`share`) runs, so that each term takes one load,
// one addition and one minimum. Terms with d > k read the infinite values in front of before[0].
void LowerBySumsHere(const SumRange& sums, size_t count, double* least) {
  const double* const before = sums.before;
  const double* const cost = sums.cost;
  const size_t first = sums.first;
  const size_t last = sums.last;
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  const size_t block = 4 * lanes;
  size_t k = first;
  for (; block <= kLevelsInFront && k + block <= count; k += block) {
    auto best0 = hn::LoadU(d, least + k);
    auto best1 = hn::LoadU(d, least + k + lanes);
    auto best2 = hn::LoadU(d, least + k + 2 * lanes);
    auto best3 = hn::LoadU(d, least + k + 3 * lanes);
    const size_t end = std::min(last, k + block - 1);
    for (size_t share = first; share <= end; ++share) {
      const auto added = hn::Set(d, cost[share]);
      const double* from = before + k - share;
      best0 = hn::Min(best0, hn::Add(hn::LoadU(d, from), added));
      best1 = hn::Min(best1, hn::Add(hn::LoadU(d, from + lanes), added));
      best2 = hn::Min(best2, hn::Add(hn::LoadU(d, from + 2 * lanes), added));
      best3 = hn::Min(best3, hn::Add(hn::LoadU(d, from + 3 * lanes), added));
    }
    hn::StoreU(best0, d, least + k);
    hn::StoreU(best1, d, least + k + lanes);
    hn::StoreU(best2, d, least + k + 2 * lanes);
    hn::StoreU(best3, d, least + k + 3 * lanes);
  }
  // The remaining levels, fewer than a block.
  for (; k < count; ++k) {
    double best = least[k];
    for (size_t share = first; share <= std::min(last, k); ++share) {
      best = std::min(best, before[k - share] + cost[share]);
    }
    least[k] = best;
  }
}

// Values are single precision: promote each vector, then multiply and add in double precision.
void LowerToScaledHere(const float* values, const LinearMap& map, size_t count, double* least) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const size_t lanes = hn::Lanes(d);
  const auto times = hn::Set(d, map.scale);
  const auto plus = hn::Set(d, map.base);
  size_t k = 0;
  for (; k + lanes <= count; k += lanes) {
    const auto wide = hn::PromoteTo(d, hn::LoadU(half, values + k));
    const auto sum = hn::Add(plus, hn::Mul(times, wide));
    hn::StoreU(hn::Min(hn::LoadU(d, least + k), sum), d, least + k);
  }
  for (; k < count; ++k) {
    least[k] = std::min(least[k], map.base + map.scale * static_cast<double>(values[k]));
  }
}

// A block of levels stays in registers while the terms run.
void LowerToTermsHere(std::span<const SumTerm> terms, size_t count, double* least) {
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  size_t k = 0;
  for (; k + 4 * lanes <= count; k += 4 * lanes) {
    auto best0 = hn::LoadU(d, least + k);
    auto best1 = hn::LoadU(d, least + k + lanes);
    auto best2 = hn::LoadU(d, least + k + 2 * lanes);
    auto best3 = hn::LoadU(d, least + k + 3 * lanes);
    for (const SumTerm& term : terms) {
      const auto base = hn::Set(d, term.base);
      const double* a = term.a + k;
      const double* b = term.b + k;
      const auto sum = [&](size_t from) {
        return hn::Add(hn::Add(base, hn::LoadU(d, a + from)), hn::LoadU(d, b + from));
      };
      best0 = hn::Min(best0, sum(0));
      best1 = hn::Min(best1, sum(lanes));
      best2 = hn::Min(best2, sum(2 * lanes));
      best3 = hn::Min(best3, sum(3 * lanes));
    }
    hn::StoreU(best0, d, least + k);
    hn::StoreU(best1, d, least + k + lanes);
    hn::StoreU(best2, d, least + k + 2 * lanes);
    hn::StoreU(best3, d, least + k + 3 * lanes);
  }
  // The remaining levels, fewer than a block.
  for (; k + lanes <= count; k += lanes) {
    auto best = hn::LoadU(d, least + k);
    for (const SumTerm& term : terms) {
      const auto from = hn::Add(hn::Set(d, term.base), hn::LoadU(d, term.a + k));
      best = hn::Min(best, hn::Add(from, hn::LoadU(d, term.b + k)));
    }
    hn::StoreU(best, d, least + k);
  }
  for (; k < count; ++k) {
    for (const SumTerm& term : terms) {
      least[k] = std::min(least[k], (term.base + term.a[k]) + term.b[k]);
    }
  }
}

// The minimum is kept by lane and reduced at the end; min is exact, so the order does not matter.
double LeastAtPriceHere(const double* cost, double price, size_t count) {
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  double least = std::numeric_limits<double>::infinity();
  size_t k = 0;
  if (count >= lanes) {
    auto best = hn::Set(d, least);
    // charge = price * d, advanced by one vector of d at a time.
    auto charge = hn::Mul(hn::Iota(d, 0.0), hn::Set(d, price));
    const auto step = hn::Set(d, price * static_cast<double>(lanes));
    for (; k + lanes <= count; k += lanes) {
      best = hn::Min(best, hn::Add(hn::LoadU(d, cost + k), charge));
      charge = hn::Add(charge, step);
    }
    least = hn::GetLane(hn::MinOfLanes(d, best));
  }
  for (; k < count; ++k) least = std::min(least, cost[k] + price * static_cast<double>(k));
  return least;
}

}  // namespace HWY_NAMESPACE
}  // namespace stowage
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stowage {

HWY_EXPORT(LowerBySumsHere);
HWY_EXPORT(LowerToScaledHere);
HWY_EXPORT(LowerToTermsHere);
HWY_EXPORT(LeastAtPriceHere);

void LowerBySums(const SumRange& sums, size_t count, double* least) {
  HWY_DYNAMIC_DISPATCH(LowerBySumsHere)(sums, count, least);
}

void LowerToScaled(const float* values, const LinearMap& map, size_t count, double* least) {
  HWY_DYNAMIC_DISPATCH(LowerToScaledHere)(values, map, count, least);
}

void LowerToTerms(std::span<const SumTerm> terms, size_t count, double* least) {
  HWY_DYNAMIC_DISPATCH(LowerToTermsHere)(terms, count, least);
}

double LeastAtPrice(const double* cost, double price, size_t count) {
  return HWY_DYNAMIC_DISPATCH(LeastAtPriceHere)(cost, price, count);
}

}  // namespace stowage
#endif
