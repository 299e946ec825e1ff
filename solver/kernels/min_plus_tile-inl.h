// FillTile() for one target. Included once per target by min_plus.cc, inside Highway's
// foreach_target. min_plus.h describes the algorithm, the blocking and why parts may be skipped.
// min_plus_row-inl.h holds the shared state, min_plus_regular-inl.h the fast path and
// min_plus_product-inl.h the product of the general one; here is the rest of the general path and
// the choice between the two.
#if defined(STOWAGE_SOLVER_KERNELS_MIN_PLUS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOWAGE_SOLVER_KERNELS_MIN_PLUS_TILE_INL_H_
#undef STOWAGE_SOLVER_KERNELS_MIN_PLUS_TILE_INL_H_
#else
#define STOWAGE_SOLVER_KERNELS_MIN_PLUS_TILE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "solver/kernels/min_plus_product-inl.h"
#include "solver/kernels/min_plus_row-inl.h"
#include "solver/kernels/min_plus_table.h"

HWY_BEFORE_NAMESPACE();
namespace stowage {
namespace HWY_NAMESPACE {

// Offsets into one row or column stay far below 2^31: kMaxStages x kStep is 640,000.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)

// Fills one row of blocks of a chunk, column block by column block. Its private functions are the
// general path, which handles every block and every vector size. They are one class because they
// share the state of a block and are inlined into one another; that keeps the accumulators in
// registers and L1. Functions that are inlined into the inner loops keep plain positional
// arguments.
class RowFill : public GeneralProduct {
 public:
  using GeneralProduct::GeneralProduct;

  void Fill(int column_block) {
    column_block_ = column_block;
    t0_ = column_block_ * kBlock;
    pair_ = Triangle(table_.blocks)(row_block_, column_block_);
    right_bound_ = table_.right_bound + static_cast<size_t>(column_block_) *
                                            static_cast<size_t>(table_.groups()) * kLanes;
    right_ = table_.right + TableView::RightOffset(column_block_);
    if (row_block_ == column_block_) ClearBounds();
    if (column_block_ >= rows_.begin && column_block_ < rows_.end) {
      Compute();
    } else if (column_block_ < rows_.begin) {
      std::fill_n(left_bound_ + (t0_ / kGroup) * kLanes, kLanes, 0.0F);
      StoreRightOfZeros();
    } else {
      // No value is finite, here or in any previous chunk: B stays infinite once initialized.
      if (chunk_ == 0) StoreAllRight();
      return;
    }
    NoteFirstGroup();
  }

 private:
  // At the diagonal a row of blocks, and its column, begins: reset their bounds.
  void ClearBounds() {
    const int groups = table_.groups();
    std::fill_n(left_bound_, static_cast<size_t>(groups) * kLanes, kNever);
    std::fill_n(right_bound_, static_cast<size_t>(groups) * kLanes, kNever);
    table_.first_group[column_block_] = groups;
  }

  // Chooses the path for a block that is stored in the table.
  void Compute() {
    const BlockNeeds& needs = table_.needs[pair_];
    binds_ = needs.free_of_sweep > base_;
    whole_ = row_block_ < column_block_ && t0_ + kBlock <= table_.stages &&
             needs.last_least <= base_ &&
             std::min(needs.first_most, row_reaches_ + 1) >= base_ + kLanes;
    values_ = rows_.values + (column_block_ - rows_.begin) * kBlock * kStep;
    if constexpr (VectorLanes() == kLanes) {
      max_gradient_ = *std::max_element(table_.gradient + t0_,
                                        table_.gradient + std::min(t0_ + kBlock, table_.stages));
      const bool regular = row_block_ < column_block_ &&
                           t0_ + kBlock <= std::min(table_.stages, limit_from_) && !binds_;
      if (regular && whole_) return ComputeRegular<true>();
      if (regular) return ComputeRegular<false>();
    }
    ComputeAny();
  }

  void ComputeAny() {
    for (int r = 0; r < count_; ++r) StartRow(r);
    if (row_block_ < column_block_) Multiply();
    for (int r = count_ - 1; r >= 0; --r) {
      FinishRow(r);
      StoreRight(r);  // read by the rows above
    }
    for (int r = count_; r < kBlock; ++r) {
      for (int q = 0; q < kBlock; ++q) std::fill_n(Value(r, q), kLanes, kNever);
    }
    NoteLeft();
  }

  // The splits inside the row block and the column block, then the case of saving. Runs from the
  // last row up and from the first column on: a part needs those below and left of it.
  HWY_INLINE void FinishRow(int r) {
    const int s = s0_ + r;
    const ShiftedRow& save_row = save_row_[r];
    const ShiftedRow::Columns saved =
        s + 1 < table_.stages ? save_row.At(column_block_) : ShiftedRow::Columns{};
    for (int q = 0; q < kBlock; ++q) {
      const int t = t0_ + q;
      if (!whole_ && !IsPart(r, q)) {
        std::fill_n(Value(r, q), kLanes, kNever);
        continue;
      }
      float* const acc = Accumulated(r, q);
      if (row_block_ == column_block_) {
        SplitAt(r, q, s, t, acc);
      } else {
        SplitAt(r, q, s, s0_ + kBlock - 1, acc);
        SplitAt(r, q, t0_, t, acc);
      }
      FinishPart(r, q, save_row, saved);
    }
  }

  // The splits k in [begin, end), all inside the row block or all inside the column block.
  HWY_INLINE void SplitAt(int r, int q, int begin, int end, float* acc) {
    const int s = s0_ + r;
    end = std::min(end, table_.sweep_limit[s]);
    if (begin >= end) return;
    int step = kStep;
    const float* left = nullptr;
    if (begin >= t0_) {
      left = Value(r, begin - t0_);
    } else if (row_block_ < rows_.begin) {
      left = ZeroLanes();
      step = 0;
    } else {
      left = rows_.values + (begin - s0_) * kStep + r * kLanes;
    }
    int32_t need = binds_ ? SweepNeed(s, begin - 1) : 0;
    for (int k = begin; k < end; ++k, left += step) {
      if (!binds_) {
        Relax(left, Right(k, q), acc);
      } else {
        need = std::max(need, k == s ? table_.sweep_first[k] : table_.sweep[k]);
        RelaxFrom(need + table_.gradient[t0_ + q], left, Right(k, q), acc);
      }
    }
  }

  HWY_INLINE void FinishPart(int r, int q, const ShiftedRow& save_row,
                             const ShiftedRow::Columns& saved) {
    const D d;
    const int s = s0_ + r;
    const int t = t0_ + q;
    const float* const acc = Accumulated(r, q);
    float* const value = Value(r, q);
    const V prefix = hn::Set(d, table_.prefix[s]);
    const int32_t need = std::max(table_.SaveNeed(s, t), table_.saved[s]);
    const bool try_save = s < t && table_.may_save[s] != 0 && need < base_ + kLanes;
    const float least = whole_ ? -1 : Lane(table_.least[Triangle(table_.stages)(s, t)]);
    for (int p = 0; p < kLanes; p += VectorLanes()) {
      const V lane = hn::Iota(d, static_cast<float>(p));
      V v = hn::Sub(hn::Load(d, acc + p), prefix);
      if (try_save) {
        const V lower = hn::Min(v, save_row.Load(saved, q, p));
        v = need <= base_ ? lower : hn::IfThenElse(hn::Ge(lane, hn::Set(d, Lane(need))), lower, v);
      }
      if (!whole_) v = hn::IfThenElse(hn::Lt(lane, hn::Set(d, least)), hn::Set(d, kNever), v);
      hn::StoreU(v, d, value + p);
    }
    if (table_.first_way != nullptr) LowerBySavingOtherwise(s, t, value);
    Below(r, q) = value[kLanes - 1];
  }

  // The case of saving in the other ways of stage s, of a part of one stage, too.
  HWY_NOINLINE void LowerBySavingOtherwise(int s, int t, float* value) const {
    const D d;
    if (s < t && table_.may_save[s] == 0) return;
    for (int w = table_.first_way[s]; w < table_.first_way[s + 1]; ++w) {
      const OtherWay& way = table_.ways[w];
      const int32_t need = way.Need(table_.gradient[t]);
      if (need >= base_ + kLanes) continue;
      const ShiftedRow row = s < t ? ShiftedRow(table_, chunk_, s + 1, way.saved) : ShiftedRow();
      const auto columns = s < t ? row.At(column_block_) : ShiftedRow::Columns();
      const V from = hn::Set(d, Lane(need));
      for (int p = 0; p < kLanes; p += VectorLanes()) {
        const V rest = s < t ? row.Load(columns, t - t0_, p) : hn::Zero(d);
        const V sum = hn::Add(hn::Set(d, way.lost), rest);
        const V old = hn::LoadU(d, value + p);
        const auto serves = hn::Ge(hn::Iota(d, static_cast<float>(p)), from);
        hn::StoreU(hn::IfThenElse(serves, hn::Min(old, sum), old), d, value + p);
      }
    }
  }

  void StoreAllRight() {
    for (int r = 0; r < count_; ++r) StoreRight(r);
  }

  // B where all values are 0. If they were 0 throughout the shifted levels of the previous chunk,
  // too, the stored B is already correct and only the bounds are updated.
  void StoreRightOfZeros() {
    const int32_t zeros_from = std::max(table_.needs[pair_].last_most, table_.bottom[row_block_]);
    if (row_block_ == column_block_ || zeros_from > base_ - kLanes - max_output_) {
      return StoreAllRight();
    }
    for (int r = 0; r < count_; ++r) {
      const int s = s0_ + r;
      if (s == 0) continue;
      float* const bound = right_bound_ + ((s - 1) / kGroup) * kLanes;
      const V sweep_end = hn::Set(D(), table_.sweep_end[s]);
      for (int p = 0; p < kLanes; p += VectorLanes()) {
        hn::StoreU(hn::Min(sweep_end, hn::LoadU(D(), bound + p)), D(), bound + p);
      }
    }
  }

  // Stores B[s-1] for row s and this column block, and updates its bound.
  HWY_INLINE void StoreRight(int r) {
    const D d;
    const int s = s0_ + r;
    if (s == 0) return;
    const ShiftedRow& row = right_row_[r];
    const ShiftedRow::Columns columns = row.At(column_block_);
    float* const bound = right_bound_ + ((s - 1) / kGroup) * kLanes;
    const V sweep_end = hn::Set(d, table_.sweep_end[s]);
    for (int p = 0; p < kLanes; p += VectorLanes()) {
      V least = hn::LoadU(d, bound + p);
      for (int q = 0; q < kBlock; ++q) {
        V v = hn::Set(d, kNever);
        if (IsPart(r, q)) v = hn::Add(row.Load(columns, q, p), sweep_end);
        hn::StoreU(v, d, Right(s - 1, q) + p);
        least = hn::Min(least, v);
      }
      hn::StoreU(least, d, bound + p);
    }
  }

  // Updates the bound of A by this block.
  void NoteLeft() {
    const D d;
    float* const bound = left_bound_ + (t0_ / kGroup) * kLanes;
    for (int p = 0; p < kLanes; p += VectorLanes()) {
      V least = hn::LoadU(d, bound + p);
      for (int i = 0; i < kBlock * kBlock; ++i) {
        least = hn::Min(least, hn::LoadU(d, values_ + i * kLanes + p));
      }
      hn::StoreU(least, d, bound + p);
    }
  }

  // Lowers first_group to the first group of this row block with a finite bound.
  void NoteFirstGroup() {
    // Row s holds B[s-1], so the k of this block start at s0 - 1 and lie in at most two groups.
    for (int k = std::max(0, s0_ - 1); k < s0_ + kBlock - 1; k += kBlock - 1) {
      const int g = k / kGroup;
      if (g >= table_.first_group[column_block_]) continue;
      const float* const bound = right_bound_ + g * kLanes;
      if (std::any_of(bound, bound + kLanes, [](float b) { return b < kNever; })) {
        table_.first_group[column_block_] = g;
      }
    }
  }
};

// Row blocks from the bottom up, column blocks from left to right: the order of dependence.
inline void FillTileHere(const TableView& table, int chunk, int row, int column) {
  const int end = std::min(column + kTile, table.blocks);
  for (int I = std::min(row + kTile, table.blocks) - 1; I >= row; --I) {
    RowFill rows(table, chunk, I);
    for (int J = std::max(I, column); J < end; ++J) rows.Fill(J);
  }
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)

}  // namespace HWY_NAMESPACE
}  // namespace stowage
HWY_AFTER_NAMESPACE();

#endif
