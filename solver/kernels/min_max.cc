#include "solver/kernels/min_max.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "solver/kernels/min_max.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stowage {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
HWY_INLINE void LowerLeastHere(const SplitNeed<T>& split, size_t count, T* least) {
  const hn::ScalableTag<T> d;
  // Local copies: stores to `least` might otherwise be assumed to change the struct.
  const T* const rest = split.rest;
  const T* const gradient = split.gradient;
  const auto kept = hn::Set(d, split.kept);
  const auto front = hn::Set(d, split.front);
  const auto sweep = hn::Set(d, split.sweep);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto behind = hn::Add(hn::LoadU(d, rest + i), kept);
    const auto during = hn::Add(hn::LoadU(d, gradient + i), sweep);
    const auto need = hn::Max(hn::Max(behind, during), front);
    hn::StoreU(hn::Min(hn::LoadU(d, least + i), need), d, least + i);
  }
  // The remaining entries, fewer than a vector.
  for (; i < count; ++i) {
    least[i] = std::min(least[i],
                        std::max({rest[i] + split.kept, gradient[i] + split.sweep, split.front}));
  }
}

// HWY_EXPORT takes no templates: one name for each type.
void LowerLeast32(const SplitNeed<int32_t>& split, size_t count, int32_t* least) {
  LowerLeastHere(split, count, least);
}

void LowerLeast64(const SplitNeed<int64_t>& split, size_t count, int64_t* least) {
  LowerLeastHere(split, count, least);
}

}  // namespace HWY_NAMESPACE
}  // namespace stowage
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stowage {

HWY_EXPORT(LowerLeast32);
HWY_EXPORT(LowerLeast64);

void LowerLeast(const SplitNeed<int32_t>& split, size_t count, int32_t* least) {
  HWY_DYNAMIC_DISPATCH(LowerLeast32)(split, count, least);
}

void LowerLeast(const SplitNeed<int64_t>& split, size_t count, int64_t* least) {
  HWY_DYNAMIC_DISPATCH(LowerLeast64)(split, count, least);
}

}  // namespace stowage
#endif
