// The fast path of FillTile() for one target: blocks that stay in registers. Included once per
// target by min_plus_tile-inl.h. The algorithm: min_plus.h.
#if defined(STOWAGE_SOLVER_KERNELS_MIN_PLUS_REGULAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOWAGE_SOLVER_KERNELS_MIN_PLUS_REGULAR_INL_H_
#undef STOWAGE_SOLVER_KERNELS_MIN_PLUS_REGULAR_INL_H_
#else
#define STOWAGE_SOLVER_KERNELS_MIN_PLUS_REGULAR_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "solver/kernels/min_plus_row-inl.h"
#include "solver/kernels/min_plus_table.h"

HWY_BEFORE_NAMESPACE();
namespace stowage {
namespace HWY_NAMESPACE {

// Offsets into one row or column stay far below 2^31: kMaxStages x kStep is 640,000.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)

// Computes regular blocks: off the diagonal, with kBlock rows and columns, where every sweep is
// allowed and no need of a sweep binds in this chunk. For vectors of kLanes floats.
class RegularBlocks : public RowState {
 protected:
  using RowState::RowState;

  // The same result as RowFill::ComputeAny(). kWhole: no lane has a constant value. The 16
  // accumulators stay in registers from the initial bounds to the final values.
  template <bool kWhole>
  HWY_NOINLINE void ComputeRegular() {
    const D d;
    V c[kBlock][kBlock];
    V worst;
    if (kWhole) {
      // One vector holds the bounds of all 16 parts; broadcast each to its accumulator.
      const V bounds =
          hn::Mul(hn::Add(hn::LoadU(d, &Below(0, 0)), hn::Load(d, prefixes_)), hn::Set(d, kAbove));
      worst = hn::MaxOfLanes(d, bounds);
      hn::Store(bounds, d, accumulated_);
      for (int r = 0; r < kBlock; ++r) {
        for (int q = 0; q < kBlock; ++q) c[r][q] = hn::Set(d, accumulated_[r * kBlock + q]);
      }
    } else {
      for (int r = 0; r < kBlock; ++r) StartRow(r);
      worst = Worst(0);
      for (int r = 0; r < kBlock; ++r) {
        for (int q = 0; q < kBlock; ++q) c[r][q] = hn::Load(d, Accumulated(r, q));
      }
    }
    MultiplyInRegisters(worst, c);
    FinishInRegisters<kWhole>(c);
  }

  // The splits k between the row block and the column block: c = min(c, A x B), skipping groups by
  // their bounds. The two groups that look best in the last lane and at a quarter go first: they
  // lower `worst`, and more of the others are skipped.
  HWY_INLINE void MultiplyInRegisters(V worst, V (&c)[kBlock][kBlock]) {
    const D d;
    const int first = s0_ + kBlock - 1;
    const int last = std::min(t0_, rows_.end * kBlock);  // exclusive
    const int zero_until = rows_.begin * kBlock;
    const int first_group = std::max(first / kGroup, table_.first_group[column_block_]);
    const int end_group = (last + kGroup - 1) / kGroup;
    const auto bound = [this, d](int g) HWY_ATTR {
      return hn::Add(hn::LoadU(d, left_bound_ + g * kLanes),
                     hn::LoadU(d, right_bound_ + g * kLanes));
    };
    const auto multiply = [&](int g) HWY_ATTR {
      const int begin = std::max(first, g * kGroup);
      const int end = std::min(last, (g + 1) * kGroup);
      const float* left = rows_.values + (begin - zero_until) * kStep;
      const float* right = right_ + begin * kStep;
      int k = begin;
      // Left parts that cost nothing have no stored values: A = 0.
      for (; k < std::min(end, zero_until); ++k, left += kStep, right += kStep) {
        for (int q = 0; q < kBlock; ++q) {
          const V b = hn::LoadU(d, right + q * kLanes);
          for (int r = 0; r < kBlock; ++r) c[r][q] = hn::Min(c[r][q], b);
        }
      }
      for (; k < end; ++k, left += kStep, right += kStep) {
        for (int q = 0; q < kBlock; ++q) {
          const V b = hn::LoadU(d, right + q * kLanes);
          for (int r = 0; r < kBlock; ++r) {
            c[r][q] = hn::Min(c[r][q], hn::Add(hn::LoadU(d, left + r * kLanes), b));
          }
        }
      }
      worst = WorstOf(c);
    };
    // Find, by lane, the group with the least bound.
    V best = hn::Set(d, kNever);
    V best_group = hn::Set(d, -1.0F);
    V group = hn::Set(d, static_cast<float>(first_group));
    for (int g = first_group; g < end_group; ++g) {
      const V b = bound(g);
      best_group = hn::IfThenElse(hn::Lt(b, best), group, best_group);
      best = hn::Min(best, b);
      group = hn::Add(group, hn::Set(d, 1.0F));
    }
    if (hn::AllFalse(d, hn::Lt(best, worst))) return;
    alignas(64) float groups[kLanes];
    hn::Store(best_group, d, groups);
    const int high = static_cast<int>(groups[kLanes - 1]);
    const int low = static_cast<int>(groups[kLanes / 4]);
    if (high >= 0) multiply(high);
    if (low >= 0 && low != high) multiply(low);
    for (int g = first_group; g < end_group; ++g) {
      if (hn::AllFalse(d, hn::Lt(bound(g), worst)) || g == high || g == low) continue;
      multiply(g);
    }
  }

  static HWY_INLINE V WorstOf(const V (&c)[kBlock][kBlock]) {
    V row[kBlock];
    for (int r = 0; r < kBlock; ++r) {
      row[r] = hn::Max(hn::Max(c[r][0], c[r][1]), hn::Max(c[r][2], c[r][3]));
    }
    return hn::Max(hn::Max(row[0], row[1]), hn::Max(row[2], row[3]));
  }

  // The remaining splits and the case of saving, row by row from the last: rows above read it.
  template <bool kWhole>
  HWY_INLINE void FinishInRegisters(V (&c)[kBlock][kBlock]) {
    const D d;
    V behind[kBlock][kBlock];  // B[k] of the k inside this row block, by k and column
    V left_bound = hn::LoadU(d, left_bound_ + (t0_ / kGroup) * kLanes);
    FinishRowInRegisters<kWhole, 3>(c, behind, left_bound);
    FinishRowInRegisters<kWhole, 2>(c, behind, left_bound);
    FinishRowInRegisters<kWhole, 1>(c, behind, left_bound);
    FinishRowInRegisters<kWhole, 0>(c, behind, left_bound);
    hn::StoreU(left_bound, d, left_bound_ + (t0_ / kGroup) * kLanes);
  }

  template <bool kWhole, int kRow>
  HWY_INLINE void FinishRowInRegisters(V (&c)[kBlock][kBlock], V (&behind)[kBlock][kBlock],
                                       V& left_bound) {
    static_assert(kBlock == 4);
    const D d;
    const int s = s0_ + kRow;
    const V prefix = hn::Set(d, table_.prefix[s]);
    const V sweep_end = hn::Set(d, table_.sweep_end[s]);
    V value[kBlock];
    // 1. The splits inside this row block.
    const bool zero = row_block_ < rows_.begin;
    const float* diagonal = zero ? ZeroLanes() : rows_.values + kRow * (kStep + kLanes);
    HWY_UNROLL(kBlock)
    for (int k = kRow; k < kBlock - 1; ++k) {
      const V a = hn::LoadU(d, diagonal);
      diagonal += zero ? 0 : kStep;
      HWY_UNROLL(kBlock)
      for (int q = 0; q < kBlock; ++q) c[kRow][q] = hn::Min(c[kRow][q], hn::Add(a, behind[k][q]));
    }
    // 2. The case of saving stage s, in the lanes where it is allowed.
    V saved[kBlock];
    if (table_.may_save[s] != 0) {
      const ShiftedRow::Columns columns = save_row_[kRow].At(column_block_);
      HWY_UNROLL(kBlock)
      for (int q = 0; q < kBlock; ++q) saved[q] = save_row_[kRow].Load(columns, q, 0);
      if (SaveNeedOfBlock(s) > base_) KeepSavedFrom(s, saved);
      if (table_.first_way != nullptr) LowerBySavingOtherwise(s, saved);
    } else {
      for (V& v : saved) v = hn::Set(d, kNever);
    }
    // 3. The splits inside the column block, which depend on the values to the left. They come last
    //    because each waits for the previous column. Subtracting the prefix before or after min
    //    gives the same result: rounding is monotone.
    V part[kBlock];
    HWY_UNROLL(kBlock)
    for (int q = 0; q < kBlock; ++q) {
      part[q] = hn::Min(hn::Sub(c[kRow][q], prefix), saved[q]);
    }
    const float* const right = Right(t0_, 0);
    HWY_UNROLL(kBlock)
    for (int q = 0; q < kBlock; ++q) {
      value[q] = Finish<kWhole, kRow>(q, part[q]);
      HWY_UNROLL(kBlock)
      for (int p = q + 1; p < kBlock; ++p) {
        const V sum = hn::Add(value[q], hn::LoadU(d, right + q * kStep + p * kLanes));
        part[p] = hn::Min(part[p], hn::Sub(sum, prefix));
      }
    }
    for (const V& each : value) left_bound = hn::Min(left_bound, each);
    // 4. B[s-1] and its bound, which the rows above read.
    if (kRow == 0 && s == 0) return;
    const ShiftedRow::Columns columns = right_row_[kRow].At(column_block_);
    float* const bound = right_bound_ + ((s - 1) / kGroup) * kLanes;
    V least = hn::LoadU(d, bound);
    HWY_UNROLL(kBlock)
    for (int q = 0; q < kBlock; ++q) {
      const V b = hn::Add(right_row_[kRow].Load(columns, q, 0), sweep_end);
      if (kRow > 0) behind[kRow > 0 ? kRow - 1 : 0][q] = b;
      hn::StoreU(b, d, Right(s - 1, q));
      least = hn::Min(least, b);
    }
    hn::StoreU(least, d, bound);
  }

  // Stores the value of one part. Lanes below `least` become infinite unless there are none.
  template <bool kWhole, int kRow>
  HWY_INLINE V Finish(int q, V v) {
    const D d;
    if (!kWhole) {
      const float least = Lane(table_.least[Triangle(table_.stages)(s0_ + kRow, t0_ + q)]);
      v = hn::IfThenElse(hn::Lt(hn::Iota(d, 0), hn::Set(d, least)), hn::Set(d, kNever), v);
    }
    hn::StoreU(v, d, Value(kRow, q));
    Below(kRow, q) = Value(kRow, q)[kLanes - 1];
    return v;
  }

  // The case of saving in the other ways of stage s. Out of line, as most chains have none.
  HWY_NOINLINE void LowerBySavingOtherwise(int s, V (&saved)[kBlock]) const {
    const D d;
    for (int w = table_.first_way[s]; w < table_.first_way[s + 1]; ++w) {
      const OtherWay& way = table_.ways[w];
      const ShiftedRow row(table_, chunk_, s + 1, way.saved);
      const ShiftedRow::Columns columns = row.At(column_block_);
      const V lost = hn::Set(d, way.lost);
      const bool everywhere = way.Need(max_gradient_) <= base_;
      for (int q = 0; q < kBlock; ++q) {
        V v = hn::Add(lost, row.Load(columns, q, 0));
        if (!everywhere) {
          const V need = hn::Set(d, Lane(way.Need(table_.gradient[t0_ + q])));
          v = hn::IfThenElse(hn::Ge(hn::Iota(d, 0), need), v, hn::Set(d, kNever));
        }
        saved[q] = hn::Min(saved[q], v);
      }
    }
  }

  // The level from which stage s may be saved in every column of the block.
  HWY_INLINE int32_t SaveNeedOfBlock(int s) const {
    return std::max(
        {table_.save_backward[s], table_.saved[s], table_.save_forward[s] + max_gradient_});
  }

  // Makes the case of saving infinite in the lanes below the need of each column. Rare, so kept out
  // of line.
  HWY_NOINLINE void KeepSavedFrom(int s, V (&saved)[kBlock]) const {
    const D d;
    for (int q = 0; q < kBlock; ++q) {
      const int32_t need = std::max(table_.SaveNeed(s, t0_ + q), table_.saved[s]);
      const auto live = hn::Ge(hn::Iota(d, 0), hn::Set(d, Lane(need)));
      saved[q] = hn::IfThenElse(live, saved[q], hn::Set(d, kNever));
    }
  }
};

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)

}  // namespace HWY_NAMESPACE
}  // namespace stowage
HWY_AFTER_NAMESPACE();

#endif
