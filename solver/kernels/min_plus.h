// The inner loops of the dynamic programs over the parts [s..t] of a chain and memory levels m:
//
//   C(s,t,m) = min( C(s+1, t, m - saved[s])                             if m >= SaveNeed(s,t),
//                   min over k in s..t-1 of  prefix[k+1] - prefix[s]
//                       + C(s, k, m) + C(k+1, t, m - output[k])         if m >= SweepNeed(s,k,t) )
//   C(t,t,m) = 0                                                        if m >= SaveNeed(t,t)
//
// infinite where none applies; prefix[s] is the time of the forwards before s. It is RR-9302's
// Theorem 1 less Σ(uF + uB), stages counted from 0 (see rotor_table.h). C never grows with m.
//
// How it is made fast. C(.,.,m) needs C(.,.,m') with m' <= m only, so levels are taken in chunks of
// kLanes, one vector, outermost. Inside a chunk the minimum over k is a min-plus matrix product of
//   left  A[s][k] = C(s,k,m)   and   right  B[k][t] = C(k+1, t, m - output[k]) + prefix[k+1],
// computed in blocks of kBlock x kBlock parts held in registers, k innermost, both operands stored
// so that they are read in sequence. What is known in advance is not computed: levels below what a
// part needs at least (`least`), from what storing all of it takes (`most`) on, and those that the
// answers wanted cannot reach (`bottom`, `top`). And most
// products cannot matter: for each kBlock rows (columns) and each kGroup consecutive k the least of
// A (of B) is kept, lane by lane; a group is skipped when these two together reach what the block
// already has in every lane. The most promising group goes first, and the block starts from what it
// had one level below its chunk. Skipping is exact: floating-point addition is monotone.
//
// Single precision; each value comes from one order of additions, min is exact, so every target and
// the scalar twin agree to the bit. Memory is read and written in the places that TableView names,
// nothing is allocated. Thread-safe for tiles that do not depend on each other.
#ifndef STOWAGE_SOLVER_KERNELS_MIN_PLUS_H_
#define STOWAGE_SOLVER_KERNELS_MIN_PLUS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace stowage {

inline constexpr int kLanes = 16;  // levels in a chunk
inline constexpr int kBlock = 4;   // parts that share a first (or last) stage's registers
inline constexpr int kGroup = 8;   // split points that share a bound; a multiple of kBlock
inline constexpr int kTile = 8;    // blocks on the side of what one call fills
inline constexpr float kNever = std::numeric_limits<float>::infinity();  // survives additions

// Pairs (s,t), s <= t < count, rows of one s together.
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

// The values of one chunk and kBlock rows: columns of blocks [begin, end), for each column t and
// each of the kBlock rows kLanes levels. Blocks before `begin` are all 0, from `end` on all kNever.
struct ChunkRows {
  float* values = nullptr;
  int begin = 0;
  int end = 0;
};

// What is known in advance of the parts of two blocks: levels.
struct BlockNeeds {
  int32_t first_least = std::numeric_limits<int32_t>::max();  // below it none is finite,
  int32_t last_least = 0;                                     // from here on all are
  int32_t first_most = std::numeric_limits<int32_t>::max();   // below it none is 0,
  int32_t last_most = 0;                                      // from here on all are
  int32_t free_of_sweep = 0;                                  // from here on no SweepNeed binds
};

// A table under construction. Stages are counted from 0; slots are what memory levels count.
// Blocks: of kBlock stages, the last one padded. Everything is borrowed.
struct TableView {
  int stages = 0;
  int blocks = 0;

  // By stage, `stages` long (prefix one more).
  const float* prefix = nullptr;           // time of the forwards before a stage
  const int32_t* output = nullptr;         // slots of its output,
  const int32_t* saved = nullptr;          // of all it saves,
  const int32_t* gradient = nullptr;       // of the gradient of its output,
  const int32_t* save_forward = nullptr;   // of its saving forward without that of the part's last,
  const int32_t* save_backward = nullptr;  // of its backward,
  const int32_t* sweep = nullptr;          // of its forward in a sweep, likewise, its input counted
  const int32_t* sweep_first = nullptr;    // and as the first of a sweep, its input not counted
  const int32_t* sweep_limit = nullptr;    // the first stage from s on that no sweep may run
  const uint8_t* may_save = nullptr;       // whether a part of two or more may start by saving it
  const int32_t* top = nullptr;            // the highest level that anything asks a row for
  const int32_t* bottom = nullptr;         // by block of rows: the lowest

  // By part, in Triangle order.
  const int32_t* least = nullptr;     // the least level at which it is finite
  const int32_t* most = nullptr;      // from here on it is 0
  const BlockNeeds* needs = nullptr;  // by pair of blocks, in Triangle order

  const ChunkRows* rows = nullptr;  // of chunk c and block I at c * blocks + I; written through
  int chunks = 0;

  // Of the chunk in work.
  float* right = nullptr;          // B of column block J at RightOffset(J): by k, column, lane
  float* left_bound = nullptr;     // by row block and group: kLanes
  float* right_bound = nullptr;    // by column block and group: kLanes
  int32_t* first_group = nullptr;  // by column block: the first group whose bound is finite
  // By pair of blocks, then row and column: the value at the last level of the chunk before, kNever
  // at first.
  float* below = nullptr;

  int groups() const { return (stages + kGroup - 1) / kGroup; }
  // Of the first k of column block J.
  static size_t RightOffset(int column_block) {
    const auto before = static_cast<size_t>(column_block);  // columns of 4, 8, ... k
    return before * (before + 1) / 2 * kBlock * kBlock * kLanes;
  }

  int32_t SaveNeed(int s, int t) const {
    const int32_t forward = save_forward[s] + gradient[t];
    return forward > save_backward[s] ? forward : save_backward[s];
  }
};

// kLanes times one value; kLanes floats before and after them may be read, too.
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

// The rows of a chunk; constant ones where the table has no such chunk: below its first level no
// part is finite, and above its last one values mean nothing.
inline constexpr ChunkRows kAllNever = {nullptr, 0, 0};
inline constexpr ChunkRows kAllZero = {nullptr, std::numeric_limits<int>::max(),
                                       std::numeric_limits<int>::max()};
inline const ChunkRows* RowsOf(const TableView& table, int chunk, int row_block) {
  if (chunk < 0) return &kAllNever;
  if (chunk >= table.chunks) return &kAllZero;
  return &table.rows[static_cast<size_t>(chunk) * static_cast<size_t>(table.blocks) +
                     static_cast<size_t>(row_block)];
}

// The kLanes values of part (s,t) at levels from chunk * kLanes; constant ones where the table
// holds none. kLanes floats before and after them may be read, too, but mean nothing.
inline const float* LanesOf(const TableView& table, int chunk, int s, int t) {
  const ChunkRows& rows = *RowsOf(table, chunk, s / kBlock);
  const int column_block = t / kBlock;
  if (column_block < rows.begin) return ZeroLanes();
  if (column_block >= rows.end) return NeverLanes();
  const auto column = static_cast<size_t>(t - rows.begin * kBlock);
  return rows.values + (column * kBlock + static_cast<size_t>(s % kBlock)) * kLanes;
}

// Fills the blocks [row, row + kTile) x [column, column + kTile) of a chunk on and above the
// diagonal. Requires: all chunks before are filled, and of this one all tiles left of and below
// this one.
void FillTile(const TableView& table, int chunk, int row, int column);

// What FillTile() runs on. "best": the best of this machine (the default).
std::vector<std::string> MinPlusTargets();  // all that this machine can run, "scalar" among them
// For tests and benchmarks, while no table is being filled. Returns false for an unknown name.
bool SetMinPlusTarget(const std::string& name);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_KERNELS_MIN_PLUS_H_
