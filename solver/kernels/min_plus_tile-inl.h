// FillTile() for one target: included once a target by min_plus.cc, inside Highway's
// foreach_target. How the computation is cut up and why parts of it may be skipped: min_plus.h.
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
#include "solver/kernels/min_plus.h"

HWY_BEFORE_NAMESPACE();
namespace stowage {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kLanes>;
using V = hn::Vec<D>;

inline constexpr int kStep = kBlock * kLanes;  // floats from one k (or column) to the next
// Makes a bound that went through an addition larger than the sum that it stands for, whatever the
// rounding: it may ask for too much work, but never replaces a sum.
inline constexpr float kAbove = 1 + 0x1p-21F;

// Of a vector: kLanes or, on smaller machines, a part of it.
constexpr int VectorLanes() { return static_cast<int>(hn::MaxLanes(D())); }

// Offsets into one row or column stay far below 2^31: kMaxStages x kStep is 640,000.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)

// Lane i of a vector turned by n comes from lane from[n][i].
struct Turns {
  alignas(64) int32_t from[kLanes][kLanes] = {};

  constexpr Turns() {
    for (int n = 0; n < kLanes; ++n) {
      for (int i = 0; i < kLanes; ++i) from[n][i] = (i + n) % kLanes;
    }
  }
};
inline constexpr Turns kTurns;

// One row of parts (s, .) at kLanes levels that are those of a chunk less some slots: they lie in
// two chunks, or in one.
class ShiftedRow {
 public:
  ShiftedRow() = default;
  ShiftedRow(const TableView& table, int chunk, int s, int32_t slots) : row_(s % kBlock) {
    const int level = chunk * kLanes - slots;
    const int low = level >= 0 ? level / kLanes : -((-level + kLanes - 1) / kLanes);
    offset_ = level - low * kLanes;
    edge_ = static_cast<float>(kLanes - offset_);
    turn_ = kTurns.from[offset_];
    low_ = RowsOf(table, low, s / kBlock);
    high_ = offset_ == 0 ? low_ : RowsOf(table, low + 1, s / kBlock);
  }

  // The values of a column block, column by column kStep floats apart.
  struct Columns {
    const float* low = nullptr;
    const float* high = nullptr;
    int low_step = 0;
    int high_step = 0;
  };
  Columns At(int column_block) const {
    Columns columns;
    columns.low = Find(*low_, column_block, &columns.low_step);
    columns.high = Find(*high_, column_block, &columns.high_step);
    return columns;
  }

  // Lanes [p, p + Lanes) of column q.
  HWY_INLINE V Load(const Columns& columns, int q, int p) const {
    const D d;
    const float* const low = columns.low + q * columns.low_step + p;
    const float* const high = columns.high + q * columns.high_step + p;
    const V lane = hn::Iota(d, static_cast<float>(p));
    const auto from_low = hn::Lt(lane, hn::Set(d, edge_));
    if constexpr (VectorLanes() == kLanes) {
      // Turning whole vectors reads one cache line each, and what was stored just now at once.
      const auto turn = hn::SetTableIndices(d, turn_);
      return hn::IfThenElse(from_low, hn::TableLookupLanes(hn::LoadU(d, low), turn),
                            hn::TableLookupLanes(hn::LoadU(d, high), turn));
    }
    return hn::IfThenElse(from_low, hn::LoadU(d, low + offset_),
                          hn::LoadU(d, high + offset_ - kLanes));
  }

 private:
  const float* Find(const ChunkRows& rows, int column_block, int* step) const {
    if (column_block < rows.begin) return ZeroLanes();
    if (column_block >= rows.end) return NeverLanes();
    *step = kStep;
    return rows.values + (column_block - rows.begin) * kBlock * kStep + row_ * kLanes;
  }

  const ChunkRows* low_ = nullptr;
  const ChunkRows* high_ = nullptr;
  int offset_ = 0;       // 0: only low counts
  float edge_ = kLanes;  // lanes before it come from low
  int row_ = 0;
  const int32_t* turn_ = nullptr;  // from which lane of low or high each lane comes
};

// Fills one row of blocks of a chunk, column block by column block.
class RowFill {
 public:
  RowFill(const TableView& table, int chunk, int row_block)
      : table_(table),
        chunk_(chunk),
        base_(chunk * kLanes),
        row_block_(row_block),
        s0_(row_block * kBlock),
        count_(std::min(kBlock, table.stages - s0_)),
        rows_(*RowsOf(table, chunk, row_block)),
        left_bound_(table.left_bound +
                    static_cast<size_t>(row_block) * static_cast<size_t>(table.groups()) * kLanes) {
    for (int r = 0; r < count_; ++r) {
      const int s = s0_ + r;
      limit_ = table.sweep_limit[s];
      std::fill_n(prefixes_ + r * kBlock, kBlock, table.prefix[s]);
      limit_from_ = std::min(limit_from_, limit_);
      if (s > 0) most_output_ = std::max(most_output_, table.output[s - 1]);
      row_reaches_ = std::min(row_reaches_, table.top[s]);
      if (s > 0) right_row_[r] = ShiftedRow(table, chunk, s, table.output[s - 1]);
      if (s + 1 < table.stages) save_row_[r] = ShiftedRow(table, chunk, s + 1, table.saved[s]);
    }
    while (table.sweep_limit[s0_ + masked_] < limit_) ++masked_;
  }

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
      // Nothing is finite here, nor was it before.
      if (chunk_ == 0) StoreAllRight();
      return;
    }
    NoteFirstGroup();
  }

 private:
  void ClearBounds() {
    const int groups = table_.groups();
    std::fill_n(left_bound_, static_cast<size_t>(groups) * kLanes, kNever);
    std::fill_n(right_bound_, static_cast<size_t>(groups) * kLanes, kNever);
    table_.first_group[column_block_] = groups;
  }

  void Compute() {
    const BlockNeeds& needs = table_.needs[pair_];
    binds_ = needs.free_of_sweep > base_;
    whole_ = row_block_ < column_block_ && t0_ + kBlock <= table_.stages &&
             needs.last_least <= base_ &&
             std::min(needs.first_most, row_reaches_ + 1) >= base_ + kLanes;
    values_ = rows_.values + (column_block_ - rows_.begin) * kBlock * kStep;
    if constexpr (VectorLanes() == kLanes) {
      most_gradient_ = *std::max_element(table_.gradient + t0_,
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
      StoreRight(r);  // the rows above read it
    }
    for (int r = count_; r < kBlock; ++r) {
      for (int q = 0; q < kBlock; ++q) std::fill_n(Value(r, q), kLanes, kNever);
    }
    NoteLeft();
  }

  // ComputeAny() for the bulk of the blocks: off the diagonal, where no stage is missing or must
  // not be swept and no need of a sweep binds; kWhole: and no lane is exempt. All of a block stays
  // in registers from the first bound to the last value.
  template <bool kWhole>
  HWY_NOINLINE void ComputeRegular() {
    const D d;
    V c[kBlock][kBlock];
    V worst;
    if (kWhole) {
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
    // The most promising group first: where the bound of the last lane is least.
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

  template <bool kWhole>
  HWY_INLINE void FinishInRegisters(V (&c)[kBlock][kBlock]) {
    const D d;
    V behind[kBlock][kBlock];  // B of the k of this row block, by k and column
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
    V value[kBlock];
    // The splits inside this row block.
    const bool zero = row_block_ < rows_.begin;
    const float* diagonal = zero ? ZeroLanes() : rows_.values + kRow * (kStep + kLanes);
    HWY_UNROLL(kBlock)
    for (int k = kRow; k < kBlock - 1; ++k) {
      const V a = hn::LoadU(d, diagonal);
      diagonal += zero ? 0 : kStep;
      HWY_UNROLL(kBlock)
      for (int q = 0; q < kBlock; ++q) c[kRow][q] = hn::Min(c[kRow][q], hn::Add(a, behind[k][q]));
    }
    // Saving the row.
    V saved[kBlock];
    if (table_.may_save[s] != 0) {
      const ShiftedRow::Columns columns = save_row_[kRow].At(column_block_);
      HWY_UNROLL(kBlock)
      for (int q = 0; q < kBlock; ++q) saved[q] = save_row_[kRow].Load(columns, q, 0);
      if (SaveNeedOfBlock(s) > base_) KeepSavedFrom(s, saved);
    } else {
      for (V& v : saved) v = hn::Set(d, kNever);
    }
    // Then the splits inside the column block, each with the values left of it: what waits for
    // these comes last, and rounding leaves the order of min and subtraction free.
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
    // What the rows above will read of it.
    if (kRow == 0 && s == 0) return;
    const ShiftedRow::Columns columns = right_row_[kRow].At(column_block_);
    float* const bound = right_bound_ + ((s - 1) / kGroup) * kLanes;
    V least = hn::LoadU(d, bound);
    HWY_UNROLL(kBlock)
    for (int q = 0; q < kBlock; ++q) {
      const V b = hn::Add(right_row_[kRow].Load(columns, q, 0), prefix);
      if (kRow > 0) behind[kRow > 0 ? kRow - 1 : 0][q] = b;
      hn::StoreU(b, d, Right(s - 1, q));
      least = hn::Min(least, b);
    }
    hn::StoreU(least, d, bound);
  }

  // Stores a value that is found.
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

  // The level from which every column of the block may save row s.
  HWY_INLINE int32_t SaveNeedOfBlock(int s) const {
    return std::max(
        {table_.save_backward[s], table_.saved[s], table_.save_forward[s] + most_gradient_});
  }

  HWY_NOINLINE void KeepSavedFrom(int s, V (&saved)[kBlock]) const {
    const D d;
    for (int q = 0; q < kBlock; ++q) {
      const int32_t need = std::max(table_.SaveNeed(s, t0_ + q), table_.saved[s]);
      const auto live = hn::Ge(hn::Iota(d, 0), hn::Set(d, Lane(need)));
      saved[q] = hn::IfThenElse(live, saved[q], hn::Set(d, kNever));
    }
  }

  float* Accumulated(int r, int q) { return accumulated_ + (r * kBlock + q) * kLanes; }
  float* Value(int r, int q) const { return values_ + q * kStep + r * kLanes; }
  float& Below(int r, int q) const {
    return table_.below[pair_ * kBlock * kBlock + static_cast<size_t>(r * kBlock + q)];
  }
  bool IsPart(int r, int q) const { return s0_ + r <= t0_ + q && t0_ + q < table_.stages; }

  // A level as a lane of this chunk; what is far away stays outside.
  float Lane(int32_t level) const {
    return static_cast<float>(std::clamp(level - base_, -1, kLanes + 1));
  }

  // An upper bound before any split is tried, prefix[s] added: what the part costs one level below.
  // Lanes below what the part needs hold -infinity, so that they ask for nothing.
  void StartRow(int r) {
    const D d;
    const float prefix = table_.prefix[s0_ + r];
    for (int q = 0; q < kBlock; ++q) {
      float* const acc = Accumulated(r, q);
      const float bound = (Below(r, q) + prefix) * kAbove;
      if (whole_) {
        for (int p = 0; p < kLanes; p += VectorLanes()) hn::Store(hn::Set(d, bound), d, acc + p);
      } else if (IsPart(r, q)) {
        StartPart(s0_ + r, t0_ + q, bound, acc);
      } else {
        std::fill_n(acc, kLanes, -kNever);
      }
    }
  }

  HWY_NOINLINE void StartPart(int s, int t, float bound, float* acc) const {
    const D d;
    const size_t part = Triangle(table_.stages)(s, t);
    const V least = hn::Set(d, Lane(table_.least[part]));
    const V most = hn::Set(d, Lane(std::min(table_.most[part], table_.top[s] + 1)));
    for (int p = 0; p < kLanes; p += VectorLanes()) {
      const V lane = hn::Iota(d, static_cast<float>(p));
      V v = hn::IfThenElse(hn::Ge(lane, most), hn::Set(d, table_.prefix[s]), hn::Set(d, bound));
      v = hn::IfThenElse(hn::Lt(lane, least), hn::Set(d, -kNever), v);
      hn::Store(v, d, acc + p);
    }
  }

  // The product over the k of neither this row block nor this column block.
  void Multiply() {
    const int first = s0_ + kBlock - 1;
    const int last = std::min({t0_, limit_, rows_.end * kBlock});  // exclusive
    if (first >= last) return;
    zero_until_ = rows_.begin * kBlock;
    // Rows whose sweeps end inside the block take no part.
    std::fill_n(accumulated_, masked_ * kBlock * kLanes, -kNever);
    if (binds_) {
      MultiplyBound(first, last);
    } else {
      const int first_group = std::max(first / kGroup, table_.first_group[column_block_]);
      for (int p = 0; p < kLanes; p += VectorLanes()) MultiplyGroups(first, last, first_group, p);
    }
    for (int r = 0; r < masked_; ++r) StartRow(r);
  }

  // Lanes [p, p + Lanes) of the product, skipping the groups that cannot matter.
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

  // The largest of what the block has, lane by lane.
  HWY_INLINE V Worst(int p) const {
    const D d;
    V worst = hn::LoadU(d, accumulated_ + p);
    for (int i = 1; i < kBlock * kBlock; ++i) {
      worst = hn::Max(worst, hn::LoadU(d, accumulated_ + i * kLanes + p));
    }
    return worst;
  }

  HWY_INLINE V MultiplyGroup(int first, int last, int g, int p) {
    const int begin = std::max(first, g * kGroup);
    const int end = std::min(last, (g + 1) * kGroup);
    // Splits whose left part costs nothing have no values in the table.
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
    // Sixteen accumulators and their operands fit 32 registers, eight fit 16.
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

  // The product where the need of a sweep binds in this chunk: rare, and without short cuts.
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

  float* Right(int k, int q) const { return right_ + k * kStep + q * kLanes; }

  // acc = min(acc, left + right).
  static HWY_INLINE void Relax(const float* left, const float* right, float* acc) {
    const D d;
    for (int p = 0; p < kLanes; p += VectorLanes()) {
      const V sum = hn::Add(hn::LoadU(d, left + p), hn::LoadU(d, right + p));
      hn::Store(hn::Min(hn::Load(d, acc + p), sum), d, acc + p);
    }
  }

  // The same in the lanes from level `need` on.
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

  // Of the sweep s..k, without the gradient; of an empty one nothing.
  int32_t SweepNeed(int s, int k) const {
    int32_t need = k < s ? 0 : table_.sweep_first[s];
    for (int j = s + 1; j <= k; ++j) need = std::max(need, table_.sweep[j]);
    return need;
  }

  // The splits inside the blocks of the row and of the column, then saving; from the last row up
  // and the first column on, since each part needs those below and left of it.
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

  // Splits k in [begin, end), all of them in this row block or all in this column block.
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
    Below(r, q) = value[kLanes - 1];
  }

  void StoreAllRight() {
    for (int r = 0; r < count_; ++r) StoreRight(r);
  }

  // What stands there from the chunk before holds once it was the least that it can be.
  void StoreRightOfZeros() {
    const int32_t zeros_from = std::max(table_.needs[pair_].last_most, table_.bottom[row_block_]);
    if (row_block_ == column_block_ || zeros_from > base_ - kLanes - most_output_) {
      return StoreAllRight();
    }
    for (int r = 0; r < count_; ++r) {
      const int s = s0_ + r;
      if (s == 0) continue;
      float* const bound = right_bound_ + ((s - 1) / kGroup) * kLanes;
      const V prefix = hn::Set(D(), table_.prefix[s]);
      for (int p = 0; p < kLanes; p += VectorLanes()) {
        hn::StoreU(hn::Min(prefix, hn::LoadU(D(), bound + p)), D(), bound + p);
      }
    }
  }

  // B[s-1] of row s and this column block, and its bound.
  HWY_INLINE void StoreRight(int r) {
    const D d;
    const int s = s0_ + r;
    if (s == 0) return;
    const ShiftedRow& row = right_row_[r];
    const ShiftedRow::Columns columns = row.At(column_block_);
    float* const bound = right_bound_ + ((s - 1) / kGroup) * kLanes;
    const V prefix = hn::Set(d, table_.prefix[s]);
    for (int p = 0; p < kLanes; p += VectorLanes()) {
      V least = hn::LoadU(d, bound + p);
      for (int q = 0; q < kBlock; ++q) {
        V v = hn::Set(d, kNever);
        if (IsPart(r, q)) v = hn::Add(row.Load(columns, q, p), prefix);
        hn::StoreU(v, d, Right(s - 1, q) + p);
        least = hn::Min(least, v);
      }
      hn::StoreU(least, d, bound + p);
    }
  }

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

  void NoteFirstGroup() {
    // The rows of this block are the k from s0 - 1 on.
    for (int k = std::max(0, s0_ - 1); k < s0_ + kBlock - 1; k += kBlock - 1) {
      const int g = k / kGroup;
      if (g >= table_.first_group[column_block_]) continue;
      const float* const bound = right_bound_ + g * kLanes;
      if (std::any_of(bound, bound + kLanes, [](float b) { return b < kNever; })) {
        table_.first_group[column_block_] = g;
      }
    }
  }

  // By row, column and lane: the least sum so far.
  alignas(64) float accumulated_[kBlock * kBlock * kLanes];
  alignas(64) float prefixes_[kLanes] = {};  // of the rows, each kBlock times
  ShiftedRow right_row_[kBlock];             // the row itself, at the levels that `right` holds
  ShiftedRow save_row_[kBlock];              // the row below, once this one is saved
  const TableView& table_;
  const int chunk_;
  const int base_;  // the chunk's first level
  const int row_block_;
  const int s0_;
  const int count_;  // rows: kBlock, but for the last block
  const ChunkRows& rows_;
  float* const left_bound_;
  int limit_ = 0;  // the first stage that no sweep of the rows from masked_ on may run
  int limit_from_ = std::numeric_limits<int>::max();  // the least of all rows
  int masked_ = 0;                                    // rows whose sweeps end inside the block
  int32_t most_output_ = 0;                           // of the stages before the rows
  int32_t row_reaches_ = std::numeric_limits<int32_t>::max();

  // Of the column block in work.
  int column_block_ = 0;
  int t0_ = 0;
  size_t pair_ = 0;
  float* right_bound_ = nullptr;
  float* right_ = nullptr;
  float* values_ = nullptr;
  bool binds_ = false;  // some sweep's need does, in this chunk
  bool whole_ = false;  // every entry is a part and every lane of it is to be computed
  int32_t most_gradient_ = 0;
  int zero_until_ = 0;  // the k before it have a left part that costs nothing
};

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
