// What all of FillTile() shares, for one target: vector types, rows at shifted levels, and the
// state of a row of blocks. Included once per target by min_plus_tile-inl.h. The algorithm:
// min_plus.h.
#if defined(STOWAGE_SOLVER_KERNELS_MIN_PLUS_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOWAGE_SOLVER_KERNELS_MIN_PLUS_ROW_INL_H_
#undef STOWAGE_SOLVER_KERNELS_MIN_PLUS_ROW_INL_H_
#else
#define STOWAGE_SOLVER_KERNELS_MIN_PLUS_ROW_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "solver/kernels/min_plus_table.h"

HWY_BEFORE_NAMESPACE();
namespace stowage {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kLanes>;
using V = hn::Vec<D>;

inline constexpr int kStep = kBlock * kLanes;  // floats from one k (or column) to the next
// Factor on an upper bound that results from an addition. It makes the bound at least the exact sum
// despite rounding. A bound that is too large costs time only; one that is too small would hide a
// value.
inline constexpr float kAbove = 1 + 0x1p-21F;

// The lanes of a vector: kLanes, or a divisor of it on targets with shorter vectors.
constexpr int VectorLanes() { return static_cast<int>(hn::MaxLanes(D())); }

// Offsets into one row or column stay far below 2^31: kMaxStages x kStep is 640,000.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)

// Indices that rotate a vector: lane i of a vector rotated by n is lane from[n][i].
struct Turns {
  alignas(64) int32_t from[kLanes][kLanes] = {};

  constexpr Turns() {
    for (int n = 0; n < kLanes; ++n) {
      for (int i = 0; i < kLanes; ++i) from[n][i] = (i + n) % kLanes;
    }
  }
};
inline constexpr Turns kTurns;

// The values C(s, ., m - slots) for the kLanes levels m of a chunk. The shifted levels lie in one
// chunk or in two neighbouring ones, `low` and `high`.
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

  // The values of a column block. A step is kStep, or 0 where the values are constant.
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
      // Load whole vectors and rotate them. Unaligned loads would cross cache lines and could not
      // be forwarded from recent stores.
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
  int offset_ = 0;       // 0: only low is used
  float edge_ = kLanes;  // lanes before it come from low
  int row_ = 0;
  const int32_t* turn_ = nullptr;  // the source lane of each lane
};

// One row of blocks of a chunk: what its blocks share, and the state of the block in progress. The
// members are protected for the two ways to compute a block, RegularBlocks and RowFill.
class RowState {
 public:
  RowState(const TableView& table, int chunk, int row_block)
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
      if (s > 0) max_output_ = std::max(max_output_, table.output[s - 1]);
      row_reaches_ = std::min(row_reaches_, table.top[s]);
      if (s > 0) right_row_[r] = ShiftedRow(table, chunk, s, table.output[s - 1]);
      if (s + 1 < table.stages) save_row_[r] = ShiftedRow(table, chunk, s + 1, table.saved[s]);
    }
    while (table.sweep_limit[s0_ + masked_] < limit_) ++masked_;
  }

 protected:
  float* Accumulated(int r, int q) { return accumulated_ + (r * kBlock + q) * kLanes; }
  float* Value(int r, int q) const { return values_ + q * kStep + r * kLanes; }
  float& Below(int r, int q) const {
    return table_.below[pair_ * kBlock * kBlock + static_cast<size_t>(r * kBlock + q)];
  }
  bool IsPart(int r, int q) const { return s0_ + r <= t0_ + q && t0_ + q < table_.stages; }

  // A level as a lane of this chunk, clamped to just outside the chunk.
  float Lane(int32_t level) const {
    return static_cast<float>(std::clamp(level - base_, -1, kLanes + 1));
  }

  // Initializes the accumulators of a row: prefix[s] plus an upper bound of the value, the part's
  // value one level below the chunk. Lanes in which the value is already determined must not cause
  // work: those below `least` get -infinity, those from `most` on the final sum.
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

  // By lane, the largest accumulator of the block: a group whose bound is not below it is useless.
  HWY_INLINE V Worst(int p) const {
    const D d;
    V worst = hn::LoadU(d, accumulated_ + p);
    for (int i = 1; i < kBlock * kBlock; ++i) {
      worst = hn::Max(worst, hn::LoadU(d, accumulated_ + i * kLanes + p));
    }
    return worst;
  }

  float* Right(int k, int q) const { return right_ + k * kStep + q * kLanes; }

  // By row, column and lane: the least sum so far, with prefix[s] included.
  alignas(64) float accumulated_[kBlock * kBlock * kLanes];
  alignas(64) float prefixes_[kLanes] = {};  // prefix[s] of the rows, each repeated kBlock times
  ShiftedRow right_row_[kBlock];  // row s at levels m - output[s-1]: the values of B[s-1]
  ShiftedRow save_row_[kBlock];   // row s+1 at levels m - saved[s]: the case of saving stage s
  const TableView& table_;
  const int chunk_;
  const int base_;  // the chunk's first level
  const int row_block_;
  const int s0_;
  const int count_;  // rows of the block: kBlock, fewer in the last one
  const ChunkRows& rows_;
  float* const left_bound_;
  int limit_ = 0;  // the first stage that no sweep of the rows from masked_ on may run
  int limit_from_ = std::numeric_limits<int>::max();  // the least of all rows
  int masked_ = 0;                                    // rows whose sweeps end inside the block
  int32_t max_output_ = 0;                            // of the stages before the rows
  int32_t row_reaches_ = std::numeric_limits<int32_t>::max();

  // State of the current column block.
  int column_block_ = 0;
  int t0_ = 0;
  size_t pair_ = 0;
  float* right_bound_ = nullptr;
  float* right_ = nullptr;
  float* values_ = nullptr;
  bool binds_ = false;  // the need of some sweep binds in this chunk
  bool whole_ = false;  // every entry is a part and no lane is constant
  int32_t max_gradient_ = 0;
  int zero_until_ = 0;  // for k below it the left part is 0 and not stored
};

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)

}  // namespace HWY_NAMESPACE
}  // namespace stowage
HWY_AFTER_NAMESPACE();

#endif
