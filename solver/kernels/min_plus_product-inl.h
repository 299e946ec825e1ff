// The product of the general path of FillTile(), for one target: see min_plus_tile-inl.h.
#if defined(STOWAGE_SOLVER_KERNELS_MIN_PLUS_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOWAGE_SOLVER_KERNELS_MIN_PLUS_PRODUCT_INL_H_
#undef STOWAGE_SOLVER_KERNELS_MIN_PLUS_PRODUCT_INL_H_
#else
#define STOWAGE_SOLVER_KERNELS_MIN_PLUS_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "solver/kernels/min_plus_regular-inl.h"
#include "solver/kernels/min_plus_row-inl.h"
#include "solver/kernels/min_plus_table.h"

HWY_BEFORE_NAMESPACE();
namespace stowage {
namespace HWY_NAMESPACE {

// Offsets into one row or column stay far below 2^31: kMaxStages x kStep is 640,000.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)

// Multiplies any blocks, with vectors of any size: the accumulators of RowState stay in registers
// and L1, since all of it is inlined. Functions that are inlined into the inner loops keep plain
// positional arguments.
class GeneralProduct : public RegularBlocks {
 protected:
  using RegularBlocks::RegularBlocks;

  // The splits k outside both blocks: accumulators = min(accumulators, A x B).
  void Multiply() {
    const int first = s0_ + kBlock - 1;
    const int last = std::min({t0_, limit_, rows_.end * kBlock});  // exclusive
    if (first >= last) return;
    zero_until_ = rows_.begin * kBlock;
    // Rows whose sweeps end inside the block have no such splits: -infinity keeps them unchanged
    // and out of the bounds.
    std::fill_n(accumulated_, masked_ * kBlock * kLanes, -kNever);
    if (binds_) {
      MultiplyBound(first, last);
    } else {
      const int first_group = std::max(first / kGroup, table_.first_group[column_block_]);
      for (int p = 0; p < kLanes; p += VectorLanes()) MultiplyGroups(first, last, first_group, p);
    }
    for (int r = 0; r < masked_; ++r) StartRow(r);
  }

  // Lanes [p, p + VectorLanes()) of the product. The best group of each lane goes first; groups
  // whose bound reaches `worst` in every lane are skipped.
  HWY_INLINE void MultiplyGroups(int first, int last, int first_group, int p) {
    const D d;
    const int end_group = (last - 1) / kGroup + 1;
    const float* const left = left_bound_ + p;
    const float* const right = right_bound_ + p;
    const auto bound = [left, right, d](int g) HWY_ATTR {
      return hn::Add(hn::LoadU(d, left + g * kLanes), hn::LoadU(d, right + g * kLanes));
    };
    V worst = Worst(p);
    // The group with the least bound in each lane.
    V best = hn::Set(d, kNever);
    V best_group = hn::Set(d, -1.0F);
    for (int g = first_group; g < end_group; ++g) {
      const V b = bound(g);
      const auto better = hn::Lt(b, best);
      best = hn::Min(best, b);
      best_group = hn::IfThenElse(better, hn::Set(d, static_cast<float>(g)), best_group);
    }
    if (hn::AllFalse(d, hn::Lt(best, worst))) return;
    float groups[kLanes];
    hn::StoreU(best_group, d, groups);
    int tried[kLanes];
    int count = 0;
    for (int i = VectorLanes() - 1; i >= 0; --i) {
      const int g = static_cast<int>(groups[i]);
      if (g < 0 || std::find(tried, tried + count, g) != tried + count) continue;
      if (hn::AllFalse(d, hn::Lt(bound(g), worst))) continue;
      worst = MultiplyGroup(first, last, g, p);
      tried[count++] = g;
    }
    for (int g = first_group; g < end_group; ++g) {
      if (hn::AllFalse(d, hn::Lt(bound(g), worst))) continue;
      if (std::find(tried, tried + count, g) != tried + count) continue;
      worst = MultiplyGroup(first, last, g, p);
    }
  }

  HWY_INLINE V MultiplyGroup(int first, int last, int g, int p) {
    const int begin = std::max(first, g * kGroup);
    const int end = std::min(last, (g + 1) * kGroup);
    // Left parts that cost nothing have no stored values: A = 0.
    const int zero_end = std::clamp(zero_until_, begin, end);
    static_assert(kGroup % kBlock == 0);
    if (begin < zero_end) MultiplyRange(ZeroLanes(), 0, begin, zero_end, p);
    if (zero_end < end) {
      MultiplyRange(rows_.values + (zero_end - rows_.begin * kBlock) * kStep, kStep, zero_end, end,
                    p);
    }
    return Worst(p);
  }

  // acc[r][q] = min(acc[r][q], left[k][r] + right[k][q]) for k in [begin, end).
  HWY_INLINE void MultiplyRange(const float* left, int left_step, int begin, int end, int p) {
    // 16 accumulators and their operands fit 32 registers, 8 fit 16.
    constexpr int kColumns = HWY_TARGET <= HWY_AVX3 ? kBlock : kBlock / 2;
    for (int q0 = 0; q0 < kBlock; q0 += kColumns) {
      MultiplyColumns<kColumns>(left + p, left_step, right_ + begin * kStep + q0 * kLanes + p,
                                accumulated_ + q0 * kLanes + p, end - begin);
    }
  }

  template <int kColumns>
  static HWY_INLINE void MultiplyColumns(const float* HWY_RESTRICT left, int left_step,
                                         const float* HWY_RESTRICT right, float* HWY_RESTRICT acc,
                                         int count) {
    const D d;
    V c[kBlock][kColumns];
    for (int r = 0; r < kBlock; ++r) {
      for (int q = 0; q < kColumns; ++q) c[r][q] = hn::LoadU(d, acc + (r * kBlock + q) * kLanes);
    }
    for (int i = 0; i < count; ++i) {
      V a[kBlock];
      for (int r = 0; r < kBlock; ++r) a[r] = hn::LoadU(d, left + r * (left_step / kBlock));
      for (int q = 0; q < kColumns; ++q) {
        const V b = hn::LoadU(d, right + q * kLanes);
        for (int r = 0; r < kBlock; ++r) c[r][q] = hn::Min(c[r][q], hn::Add(a[r], b));
      }
      left += left_step;
      right += kStep;
    }
    for (int r = 0; r < kBlock; ++r) {
      for (int q = 0; q < kColumns; ++q) hn::StoreU(c[r][q], d, acc + (r * kBlock + q) * kLanes);
    }
  }

  // The product in chunks where the need of a sweep binds: lane by lane, without skipping. Rare.
  HWY_NOINLINE void MultiplyBound(int first, int last) {
    for (int r = 0; r < count_; ++r) {
      int32_t need = SweepNeed(s0_ + r, first - 1);
      for (int k = first; k < last; ++k) {
        need = std::max(need, k == s0_ + r ? table_.sweep_first[k] : table_.sweep[k]);
        const float* const left =
            k < zero_until_ ? ZeroLanes()
                            : rows_.values + (k - rows_.begin * kBlock) * kStep + r * kLanes;
        for (int q = 0; q < kBlock && t0_ + q < table_.stages; ++q) {
          RelaxFrom(need + table_.gradient[t0_ + q], left, Right(k, q), Accumulated(r, q));
        }
      }
    }
  }

  // acc = min(acc, left + right).
  static HWY_INLINE void Relax(const float* left, const float* right, float* acc) {
    const D d;
    for (int p = 0; p < kLanes; p += VectorLanes()) {
      const V sum = hn::Add(hn::LoadU(d, left + p), hn::LoadU(d, right + p));
      hn::Store(hn::Min(hn::Load(d, acc + p), sum), d, acc + p);
    }
  }

  // Relax() in the lanes from level `need` on.
  HWY_NOINLINE void RelaxFrom(int32_t need, const float* left, const float* right,
                              float* acc) const {
    const D d;
    if (need >= base_ + kLanes) return;
    const V from = hn::Set(d, Lane(need));
    for (int p = 0; p < kLanes; p += VectorLanes()) {
      const V old = hn::Load(d, acc + p);
      const V sum = hn::Add(hn::LoadU(d, left + p), hn::LoadU(d, right + p));
      const V lane = hn::Iota(d, static_cast<float>(p));
      hn::Store(hn::IfThenElse(hn::Ge(lane, from), hn::Min(old, sum), old), d, acc + p);
    }
  }

  // The need of the sweep s..k without the gradient; 0 for an empty sweep.
  int32_t SweepNeed(int s, int k) const {
    int32_t need = k < s ? 0 : table_.sweep_first[s];
    for (int j = s + 1; j <= k; ++j) need = std::max(need, table_.sweep[j]);
    return need;
  }
};

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)

}  // namespace HWY_NAMESPACE
}  // namespace stowage
HWY_AFTER_NAMESPACE();

#endif
