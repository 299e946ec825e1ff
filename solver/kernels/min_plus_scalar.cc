#include "solver/kernels/min_plus_scalar.h"

#include <algorithm>

namespace stowage {
namespace {

// C(s,t,level); kNever below level 0.
float ValueAt(const TableView& table, int s, int t, int level) {
  if (level < 0) return kNever;
  return LanesOf(table, level / kLanes, s, t)[level % kLanes];
}

// B[k][t] of this chunk, kLanes floats.
float* Right(const TableView& table, int k, int t) {
  const size_t column = static_cast<size_t>(k) * kBlock + static_cast<size_t>(t % kBlock);
  return table.right + TableView::RightOffset(t / kBlock) + column * kLanes;
}

// The least of saving stage s in its other ways; kNever where it has none.
float BestOtherWay(const TableView& table, int s, int t, int level) {
  float best = kNever;
  if (table.first_way == nullptr || (s < t && table.may_save[s] == 0)) return best;
  for (int w = table.first_way[s]; w < table.first_way[s + 1]; ++w) {
    const OtherWay& way = table.ways[w];
    if (level < way.Need(table.gradient[t])) continue;
    const float rest = s < t ? ValueAt(table, s + 1, t, level - way.saved) : 0;
    best = std::min(best, way.lost + rest);
  }
  return best;
}

// The recurrence for one part and level. The order of additions is that of the vectorized kernel:
// left + (right + sweep_end) first, prefix[s] subtracted last.
float Best(const TableView& table, int s, int t, int level) {
  const int lane = level % kLanes;
  if (s == t) return BestOtherWay(table, s, t, level);  // `most`: its own way serves from there
  float best = kNever;
  int32_t need = 0;
  for (int k = s; k < std::min(t, table.sweep_limit[s]); ++k) {
    need = std::max(need, k == s ? table.sweep_first[k] : table.sweep[k]);
    if (level < need + table.gradient[t]) break;  // longer sweeps need no less
    best = std::min(best, ValueAt(table, s, k, level) + Right(table, k, t)[lane]);
  }
  best -= table.prefix[s];
  if (table.may_save[s] != 0 && level >= table.SaveNeed(s, t)) {
    best = std::min(best, ValueAt(table, s + 1, t, level - table.saved[s]));
  }
  return std::min(best, BestOtherWay(table, s, t, level));
}

void FillPart(const TableView& table, int chunk, int s, int t) {
  const size_t row_block = static_cast<size_t>(s / kBlock);
  const ChunkRows& rows =
      table.rows[static_cast<size_t>(chunk) * static_cast<size_t>(table.blocks) + row_block];
  const int column_block = t / kBlock;
  if (column_block >= rows.begin && column_block < rows.end) {
    const size_t part = Triangle(table.stages)(s, t);
    const auto place =
        static_cast<size_t>(t - rows.begin * kBlock) * kBlock + static_cast<size_t>(s % kBlock);
    float* const values = rows.values + place * kLanes;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int level = chunk * kLanes + lane;
      if (level < table.least[part]) {
        values[lane] = kNever;
      } else if (level >= table.most[part] || level > table.top[s]) {
        values[lane] = 0;
      } else {
        values[lane] = Best(table, s, t, level);
      }
    }
  }
  // Row s is B[s-1], shifted by the output that is kept meanwhile: parts above read it.
  if (s == 0) return;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int level = chunk * kLanes + lane - table.output[s - 1];
    Right(table, s - 1, t)[lane] = ValueAt(table, s, t, level) + table.sweep_end[s];
  }
}

}  // namespace

void FillTileScalar(const TableView& table, int chunk, int row, int column) {
  const int end_row = std::min((row + kTile) * kBlock, table.stages);
  const int end_column = std::min((column + kTile) * kBlock, table.stages);
  // From the bottom row up and from left to right: a part needs those below and left of it.
  for (int s = end_row - 1; s >= row * kBlock; --s) {
    for (int t = std::max(s, column * kBlock); t < end_column; ++t) FillPart(table, chunk, s, t);
  }
}

}  // namespace stowage
