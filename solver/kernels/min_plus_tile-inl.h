// FillTile() for one target. Included once per target by min_plus.cc, inside Highway's
// foreach_target. min_plus.h describes the algorithm, the blocking and why parts may be skipped.
// min_plus_row-inl.h holds the shared state, min_plus_regular-inl.h the fast path; here is the
// general path and the choice between the two.
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
#include "solver/kernels/min_plus_regular-inl.h"
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
class RowFill : public RegularBlocks {
 public:
  using RegularBlocks::RegularBlocks;

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
