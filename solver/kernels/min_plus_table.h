// The table that the min-plus kernels fill, in chunks of levels and blocks of parts: min_plus.h.
#ifndef STOWAGE_SOLVER_KERNELS_MIN_PLUS_TABLE_H_
#define STOWAGE_SOLVER_KERNELS_MIN_PLUS_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <limits>

namespace stowage {

inline constexpr int kLanes = 16;  // levels in a chunk
inline constexpr int kBlock = 4;   // rows, and columns, of a register block
inline constexpr int kGroup = 8;   // consecutive k that share a bound; a multiple of kBlock
inline constexpr int kTile = 8;    // rows, and columns, of blocks in a tile
// The value of an infeasible part. Stays infinite in additions.
inline constexpr float kNever = std::numeric_limits<float>::infinity();

// Row-major index of pairs (s,t) with s <= t < count.
class Triangle {
 public:
  explicit Triangle(int count) : count_(static_cast<size_t>(count)) {}

  size_t operator()(int s, int t) const {
    const auto row = static_cast<size_t>(s);  // rows hold count, count - 1, ...
    return row * (2 * count_ - row - 1) / 2 + static_cast<size_t>(t);
  }
  size_t size() const { return count_ * (count_ + 1) / 2; }

 private:
  size_t count_;
};

// The values of one chunk and one row of blocks. Layout: by column t, then by the kBlock rows, then
// kLanes levels. Only blocks [begin, end) are stored. Blocks before `begin` are all 0, blocks from
// `end` on all kNever.
struct ChunkRows {
  float* values = nullptr;
  int begin = 0;
  int end = 0;
};

// Thresholds of the parts of a pair of blocks, in levels: the range of `least` and `most`.
struct BlockNeeds {
  int32_t first_least = std::numeric_limits<int32_t>::max();  // below it no value is finite
  int32_t last_least = 0;                                     // from it on all values are finite
  int32_t first_most = std::numeric_limits<int32_t>::max();   // below it some own way does not fit
  int32_t last_most = 0;      // from it on all own ways fit: values are 0
  int32_t free_of_sweep = 0;  // from it on no SweepNeed binds
};

// A way to save a stage that takes no more memory than its own, and whose backward takes no less.
struct OtherWay {
  int32_t saved = 0;
  int32_t save_forward = 0;
  int32_t save_backward = 0;
  float lost = 0;  // what the backward takes beyond the stage's own, as prefix

  // The level from which it serves, given the gradient that is held meanwhile.
  int32_t Need(int32_t gradient) const {
    const int32_t forward = save_forward + gradient;
    const int32_t both = forward > save_backward ? forward : save_backward;
    return both > saved ? both : saved;
  }
};

// The inputs, the table and the scratch memory of FillTile(). Everything is borrowed. Stages are
// numbered from 0. Sizes and levels are in slots. A block is kBlock stages; the last one is padded.
struct TableView {
  int stages = 0;
  int blocks = 0;

  // By stage, `stages` long (prefix one more).
  const float* prefix = nullptr;  // time of the forwards before a stage
  // The same, where the forward right before it is a replay: the end of a sweep. At most `prefix`.
  const float* sweep_end = nullptr;
  // The memory needs are those of PartSizes (algorithms/part_sizes.h).
  const int32_t* output = nullptr;
  const int32_t* saved = nullptr;
  const int32_t* gradient = nullptr;
  const int32_t* save_forward = nullptr;
  const int32_t* save_backward = nullptr;
  const int32_t* sweep = nullptr;
  const int32_t* sweep_first = nullptr;
  const int32_t* sweep_limit = nullptr;  // the first stage >= s that no sweep may run
  const uint8_t* may_save = nullptr;     // whether a longer part may begin with FORWARD_SAVE
  const int32_t* top = nullptr;          // the highest level of a row that is ever read
  const int32_t* bottom = nullptr;       // by block of rows: the lowest such level
  // Stage s has the other ways [first_way[s], first_way[s + 1]); null where no stage has any.
  const int32_t* first_way = nullptr;
  const OtherWay* ways = nullptr;

  // By part, in Triangle order.
  const int32_t* least = nullptr;  // the lowest level with a finite value
  const int32_t* most =
      nullptr;  // the level from which every stage fits in its own way, so that the value is 0
  const BlockNeeds* needs = nullptr;  // by pair of blocks, in Triangle order

  const ChunkRows* rows = nullptr;  // of chunk c and row block I at c * blocks + I
  int chunks = 0;

  // Scratch memory of the current chunk.
  float* right = nullptr;          // B of column block J at RightOffset(J): by k, column, lane
  float* left_bound = nullptr;     // by row block and group: kLanes
  float* right_bound = nullptr;    // by column block and group: kLanes
  int32_t* first_group = nullptr;  // by column block: the first group whose bound is finite
  // By pair of blocks, then row and column: the value at the last level of the previous chunk.
  // Initially kNever.
  float* below = nullptr;

  int groups() const { return (stages + kGroup - 1) / kGroup; }
  // Where B of a column block begins in `right`: the offset of k = 0.
  static size_t RightOffset(int column_block) {
    const auto before = static_cast<size_t>(column_block);  // columns of 4, 8, ... k
    return before * (before + 1) / 2 * kBlock * kBlock * kLanes;
  }

  int32_t SaveNeed(int s, int t) const {
    const int32_t forward = save_forward[s] + gradient[t];
    return forward > save_backward[s] ? forward : save_backward[s];
  }
};

// kLanes copies of one value, padded with kLanes on both sides because shifted loads read there.
struct ConstantLanes {
  alignas(64) float values[3 * kLanes] = {};

  explicit constexpr ConstantLanes(float value) {
    for (float& each : values) each = value;
  }
};
inline constexpr ConstantLanes kZeroLanes(0);
inline constexpr ConstantLanes kNeverLanes(kNever);
inline const float* ZeroLanes() { return kZeroLanes.values + kLanes; }
inline const float* NeverLanes() { return kNeverLanes.values + kLanes; }

// The rows of a chunk. Outside the table they are constant: infinite below level 0, and 0 above the
// last chunk, where no value is ever used.
inline constexpr ChunkRows kAllNever = {nullptr, 0, 0};
inline constexpr ChunkRows kAllZero = {nullptr, std::numeric_limits<int>::max(),
                                       std::numeric_limits<int>::max()};
inline const ChunkRows* RowsOf(const TableView& table, int chunk, int row_block) {
  if (chunk < 0) return &kAllNever;
  if (chunk >= table.chunks) return &kAllZero;
  return &table.rows[static_cast<size_t>(chunk) * static_cast<size_t>(table.blocks) +
                     static_cast<size_t>(row_block)];
}

// The kLanes values of part (s,t) at the levels from chunk * kLanes on; constant ones where the
// table stores none. kLanes floats before and after them are readable but undefined.
inline const float* LanesOf(const TableView& table, int chunk, int s, int t) {
  const ChunkRows& rows = *RowsOf(table, chunk, s / kBlock);
  const int column_block = t / kBlock;
  if (column_block < rows.begin) return ZeroLanes();
  if (column_block >= rows.end) return NeverLanes();
  const auto column = static_cast<size_t>(t - rows.begin * kBlock);
  return rows.values + (column * kBlock + static_cast<size_t>(s % kBlock)) * kLanes;
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_KERNELS_MIN_PLUS_TABLE_H_
