#include "solver/algorithms/rematerialization/rotor_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "solver/algorithms/rematerialization/save_ways.h"
#include "solver/algorithms/rematerialization/table_filler.h"
#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"
#include "solver/kernels/min_sum.h"

namespace stowage {
namespace {

// More levels could overflow the 32-bit sum of three sizes in slots.
constexpr int64_t kMaxLevels = int64_t{1} << 28;
// Floats before and after the values of each row of blocks, which LanesOf() guarantees readable.
constexpr size_t kPadding = kLanes;
constexpr size_t kBlockFloats = size_t{kBlock} * kBlock * kLanes;

int Blocks(int stages) { return (stages + kBlock - 1) / kBlock; }
int Groups(int stages) { return (stages + kGroup - 1) / kGroup; }

// Forward seconds before each stage with tie costs, with the last forward a replay (`sweep_end`),
// and the unit of time. The unit is a power of two, so that dividing by it is exact.
std::vector<float> PrefixOf(const Chain& chain, std::vector<float>* sweep_end, double* unit) {
  constexpr double kTieShare = 1e-6;
  const int count = chain.length() + 1;
  double total = 0;
  for (int l = 1; l <= count; ++l) total += chain.stage(l).forward_seconds;
  // If no forward takes time, only the tie costs count; this unit makes them negligible.
  constexpr double kNoTime = 1e-12;
  *unit = total > 0 ? std::ldexp(1.0, std::ilogb(total)) : kNoTime;
  const double tie = total > 0 ? kTieShare * total / count : *unit;
  std::vector<float> prefix = {0};
  sweep_end->assign(1, 0);
  double sum = 0;
  for (int l = 1; l <= count; ++l) {
    sweep_end->push_back(
        static_cast<float>((sum + (chain.stage(l).ReplaySeconds() + tie)) / *unit));
    sum += chain.stage(l).forward_seconds + tie;
    prefix.push_back(static_cast<float>(sum / *unit));
  }
  return prefix;
}

// The lowest level at which each block of rows is read when the root has `root_level`: before a
// part starts at stage s, each earlier stage has taken at most its output or all that it saves.
std::vector<int32_t> BottomOf(const PartSizes<int32_t>& sizes, int64_t root_level) {
  std::vector<int32_t> bottom(static_cast<size_t>(Blocks(sizes.stages())));
  int64_t level = root_level;
  for (int s = 0; s < sizes.stages(); ++s) {
    bottom[static_cast<size_t>(s / kBlock)] = static_cast<int32_t>(level);
    level = std::max<int64_t>(0, level - std::max(sizes.saved[s], sizes.output[s]));
  }
  return bottom;
}

// The table's value of part [s..t] at a level, in table units; kNever below level 0.
float LostAt(const TableView& view, int s, int t, int64_t level) {
  if (level < 0) return kNever;
  return LanesOf(view, static_cast<int>(level / kLanes), s, t)[level % kLanes];
}

}  // namespace

RotorTable::RotorTable(const Chain& chain, const Options& options)
    : options_(options), prefix_(PrefixOf(chain, &sweep_end_, &seconds_)) {
  const int64_t never = options.levels + 1;
  const auto slots = [&options, never](int64_t bytes) {
    return static_cast<int32_t>(std::min(never, options.grid.Slots(bytes)));
  };
  sizes_ = MakePartSizes<int32_t>(chain, options.saving, slots);
  if (chain.has_save_options()) {
    const SaveWays<int32_t> ways(chain, slots);
    for (int s = 0; s < sizes_.stages(); ++s) {
      first_way_.push_back(static_cast<int32_t>(ways_.size()));
      for (const auto& way : ways.of(s).subspan(1)) {
        constexpr double kMost = std::numeric_limits<float>::max();
        ways_.push_back({way.saved, way.save_forward, way.save_backward,
                         static_cast<float>(std::min(way.lost_seconds / seconds_, kMost))});
      }
    }
    first_way_.push_back(static_cast<int32_t>(ways_.size()));
  }
  input_slots_ = slots(chain.input_bytes);
  const auto root_top = static_cast<int32_t>(std::max<int64_t>(-1, RootLevel(options.levels)));
  top_.push_back(root_top);
  // A part that starts at stage s > 0 leaves its input, value s, outside: at least that is taken.
  for (int s = 1; s < sizes_.stages(); ++s) top_.push_back(root_top - sizes_.output[s - 1]);
  bottom_ = BottomOf(sizes_, std::max<int64_t>(0, RootLevel(options.lowest_level)));
  chunks_ = (root_top + kLanes) / kLanes;
}

int64_t RotorTable::WorkingBytes(const Chain& chain, int64_t levels) {
  if (levels >= kMaxLevels) return INT64_MAX;
  const int stages = chain.length() + 1;
  const int64_t blocks = Blocks(stages);
  const int64_t block_pairs = blocks * (blocks + 1) / 2;
  const int64_t chunks = levels / kLanes + 1;
  const auto block_bytes = static_cast<int64_t>(kBlockFloats * sizeof(float));
  const int64_t row_bytes =
      blocks * static_cast<int64_t>(kPadding * sizeof(float) + sizeof(ChunkRows) + sizeof(size_t));
  const int64_t chunk_bytes = block_pairs * block_bytes + row_bytes;
  const int64_t bounds = 2 * blocks * Groups(stages) * kLanes * static_cast<int64_t>(sizeof(float));
  const auto parts = static_cast<int64_t>(Triangle(stages).size());
  const int64_t needs = parts * static_cast<int64_t>(2 * sizeof(int32_t)) +
                        block_pairs * static_cast<int64_t>(sizeof(BlockNeeds) +
                                                           size_t{kBlock} * kBlock * sizeof(float));
  const int64_t kPerStage = chain.has_save_options() ? 768 : 256;  // small vectors
  const int64_t exact = CheckedAdd(SaturatingMultiply(chunks, chunk_bytes),
                                   block_pairs * block_bytes + bounds + needs + stages * kPerStage)
                            .value_or(INT64_MAX);
  // Each of the five large buffers is rounded up to whole huge pages.
  constexpr int64_t kHugePages = int64_t{5} * (2 << 20);
  return exact < (2 << 20) ? exact : CheckedAdd(exact, kHugePages).value_or(INT64_MAX);
}

absl::StatusOr<RotorTable> RotorTable::Build(const Chain& chain, const Options& options,
                                             const SolveContext& context) {
  RotorTable table(chain, options);
  RETURN_IF_ERROR(table.FillNeeds(context));
  table.PlaceRows();
  RETURN_IF_ERROR(table.FillChunks(context));
  return table;
}

absl::Status RotorTable::FillNeeds(const SolveContext& context) {
  const int count = sizes_.stages();
  const Triangle index(count);
  const auto never = static_cast<int32_t>(options_.levels + 1);
  const Triangle block_index(Blocks(count));
  least_ = MakeLargeBuffer<int32_t>(index.size());
  most_ = MakeLargeBuffer<int32_t>(index.size());
  needs_.assign(block_index.size(), {});
  // Called when K of row s is final. Computes `most`, the level from which saving every stage of
  // the part fits, and free_of_sweep, the level from which no sweep's need can bind:
  //   most(s,s) = SaveNeed(s,s)      most(s,t) = max(SaveNeed(s,t), saved[s] + most(s+1,t))
  const auto row_done = [&](int s) {
    int32_t sweep = 0;
    for (int t = s; t < count; ++t) {
      const size_t part = index(s, t);
      BlockNeeds& needs = needs_[block_index(s / kBlock, t / kBlock)];
      int32_t most = sizes_.SaveNeed(s, t);
      if (t > s) {
        most = sizes_.may_save[s] == 0 ? never
                                       : std::max(most, sizes_.saved[s] + most_[index(s + 1, t)]);
        const int k = t - 1;
        if (k < sizes_.sweep_limit[s]) {
          sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
        }
        const bool binds = sweep + sizes_.gradient[t] > least_[part];
        if (binds) needs.free_of_sweep = std::max(needs.free_of_sweep, sweep + sizes_.gradient[t]);
      }
      most_[part] = std::min(never, most);
      needs.first_least = std::min(needs.first_least, least_[part]);
      needs.last_least = std::max(needs.last_least, least_[part]);
      needs.first_most = std::min(needs.first_most, most_[part]);
      needs.last_most = std::max(needs.last_most, most_[part]);
    }
  };
  if (ways_.empty()) return FillLeast<int32_t>(sizes_, never, context, least_.get(), row_done);
  return FillLeast<int32_t>(sizes_, never, context, least_.get(), row_done,
                            [this](int s, int32_t* row) { LowerLeastByWays(s, row); });
}

// Lowers row s of the least levels to those of saving stage s in its other ways.
void RotorTable::LowerLeastByWays(int s, int32_t* row) const {
  const Triangle index(sizes_.stages());
  const int end = sizes_.may_save[s] != 0 ? sizes_.stages() : s + 1;
  for (const OtherWay& way : OtherWaysOf(s)) {
    for (int t = s; t < end; ++t) {
      const int32_t rest = t > s ? way.saved + least_[index(s + 1, t)] : 0;
      row[t] = std::min(row[t], std::max(way.Need(sizes_.gradient[t]), rest));
    }
  }
}

// Decides which blocks of every chunk and row of blocks are stored, and assigns their memory. A
// block is skipped when all its values are 0 or infinite throughout the chunk, or when no level of
// it is read.
void RotorTable::PlaceRows() {
  const int count = sizes_.stages();
  const int blocks = Blocks(count);
  const Triangle block_index(blocks);
  rows_.assign(static_cast<size_t>(chunks_) * static_cast<size_t>(blocks), {});
  std::vector<size_t> offsets(rows_.size());
  size_t floats = kPadding;
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    for (int I = 0; I < blocks; ++I) {
      const size_t place =
          static_cast<size_t>(chunk) * static_cast<size_t>(blocks) + static_cast<size_t>(I);
      ChunkRows& rows = rows_[place];
      offsets[place] = floats;
      int32_t row_top = -1;
      for (int stage = I * kBlock; stage < std::min((I + 1) * kBlock, count); ++stage) {
        row_top = std::max(row_top, top_[stage]);
      }
      rows.begin = I;
      rows.end = blocks;
      const int32_t low = chunk * kLanes;
      if (low + kLanes <= bottom_[I]) rows.end = I;  // below every level that is read
      if (row_top < low) rows.begin = blocks;        // above every level that is read
      // Short parts lose no time first, long parts become feasible last.
      while (rows.begin < rows.end && needs_[block_index(I, rows.begin)].last_most <= low)
        ++rows.begin;
      while (rows.begin < rows.end &&
             needs_[block_index(I, rows.end - 1)].first_least >= low + kLanes) {
        --rows.end;
      }
      floats += static_cast<size_t>(rows.end - rows.begin) * kBlockFloats + kPadding;
    }
  }
  values_ = MakeLargeBuffer<float>(floats);
  for (size_t place = 0; place < rows_.size(); ++place) {
    rows_[place].values = values_.get() + offsets[place];
  }
}

// The table as the kernels see it: raw pointers into this object, valid while it lives. The scratch
// of Build() is added by FillChunks().
TableView RotorTable::View() const {
  TableView view;
  view.stages = sizes_.stages();
  view.blocks = Blocks(view.stages);
  view.prefix = prefix_.data();
  view.sweep_end = sweep_end_.data();
  view.output = sizes_.output.data();
  view.saved = sizes_.saved.data();
  view.gradient = sizes_.gradient.data();
  view.save_forward = sizes_.save_forward.data();
  view.save_backward = sizes_.save_backward.data();
  view.sweep = sizes_.sweep.data();
  view.sweep_first = sizes_.sweep_first.data();
  view.sweep_limit = sizes_.sweep_limit.data();
  view.may_save = sizes_.may_save.data();
  view.top = top_.data();
  view.bottom = bottom_.data();
  view.first_way = ways_.empty() ? nullptr : first_way_.data();
  view.ways = ways_.data();
  view.rows = rows_.data();
  view.chunks = chunks_;
  return view;
}

absl::Status RotorTable::FillChunks(const SolveContext& context) {
  TableView view = View();
  const size_t bounds = static_cast<size_t>(view.blocks) * static_cast<size_t>(view.groups()) *
                        static_cast<size_t>(kLanes);
  right_ = MakeLargeBuffer<float>(TableView::RightOffset(view.blocks));
  bounds_ = MakeLargeBuffer<float>(2 * bounds);
  first_group_.resize(static_cast<size_t>(view.blocks));
  view.least = least_.get();
  view.most = most_.get();
  view.needs = needs_.data();
  view.right = right_.get();
  view.left_bound = bounds_.get();
  view.right_bound = bounds_.get() + bounds;
  view.first_group = first_group_.data();
  below_.assign(needs_.size() * kBlock * kBlock, kNever);
  view.below = below_.data();
  const bool filled = FillTable(view, context);
  // Queries read no scratch memory.
  least_.reset();
  most_.reset();
  right_.reset();
  bounds_.reset();
  needs_ = {};
  below_ = {};
  return filled ? absl::OkStatus() : context.CheckStop();
}

// The best way to save the first stage of a part, its own before others, and what that loses.
RotorChoice RotorTable::BestSaving(const TableView& view, const RotorPart& part,
                                   float* lost) const {
  const int s = part.s - 1;
  const int t = part.t - 1;
  const int64_t m = part.level;
  RotorChoice best;
  *lost = kNever;
  if (s < t && sizes_.may_save[s] == 0) return best;
  const auto rest_lost = [&view, s, t](int64_t level) {
    return s < t ? LostAt(view, s + 1, t, level) : 0.0F;
  };
  if (m >= sizes_.SaveNeed(s, t)) {
    best.remaining_level = m - sizes_.saved[s];
    *lost = rest_lost(best.remaining_level);
  }
  for (int option = 0; const OtherWay& way : OtherWaysOf(s)) {
    ++option;
    if (m < way.Need(sizes_.gradient[t])) continue;
    const float sum = way.lost + rest_lost(m - way.saved);
    if (sum >= *lost) continue;
    *lost = sum;
    best = {.remaining_level = m - way.saved, .save_option = option};
  }
  return best;
}

// Finds the choice whose value is the table's, by evaluating the recurrence at one level.
RotorChoice RotorTable::BestChoice(const TableView& view, const RotorPart& part) const {
  const int s = part.s - 1;
  const int t = part.t - 1;
  const int64_t m = part.level;
  float least = kNever;
  RotorChoice best = BestSaving(view, part, &least);
  // Splits are tried in the order of the table, with the same additions, so the first that reaches
  // the table's value is its choice. Longer sweeps cannot win once the sweep alone takes `least`.
  const float table_value = LostAt(view, s, t, m);
  int32_t sweep = 0;
  for (int k = s; k < std::min(t, sizes_.sweep_limit[s]) && least > table_value; ++k) {
    sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
    if (m < sweep + sizes_.gradient[t] || sweep_end_[k + 1] - prefix_[s] >= least) break;
    const int64_t rest = m - sizes_.output[k];
    const float sum = LostAt(view, s, k, m) + (LostAt(view, k + 1, t, rest) + sweep_end_[k + 1]);
    const float lost = sum - prefix_[s];
    if (lost < least) {
      least = lost;
      best = {k + 2, rest};
    }
  }
  return best;
}

std::optional<double> RotorTable::LostSecondsAt(int64_t level) const {
  const float lost = LostAt(View(), 0, sizes_.stages() - 1, RootLevel(level));
  if (lost == kNever) return std::nullopt;
  return seconds_ * static_cast<double>(lost);
}

double RotorTable::EstimateLostSeconds(int s, int t, int64_t bytes, int64_t levels_up) const {
  // The rounding errors of a part may add up to several slots. Stop the search after this many.
  constexpr int64_t kMaxSlotsUp = 64;
  const TableView view = View();
  const int64_t top = top_[s];
  const int64_t level = std::min(top, options_.grid.Slots(bytes) + levels_up);
  for (int64_t up = 0; up <= kMaxSlotsUp && level + up <= top; ++up) {
    const float lost = LostAt(view, s, t, level + up);
    if (lost < kNever) return seconds_ * static_cast<double>(lost);
  }
  // No feasible level: a pessimistic value, one sweep over the chain for every stage.
  return seconds_ * prefix_.back() * (t - s + 1);
}

void RotorTable::LowerToLostSeconds(int s, int t, double base, std::span<double> seconds) const {
  const TableView view = View();
  const size_t stored = std::min(seconds.size(), static_cast<size_t>(std::max(0, top_[s] + 1)));
  for (size_t level = 0; level < stored; level += kLanes) {
    const float* lanes = LanesOf(view, static_cast<int>(level / kLanes), s, t);
    if (lanes == NeverLanes()) continue;  // infinite: nothing to lower
    const size_t end = std::min(stored - level, static_cast<size_t>(kLanes));
    LowerToScaled(lanes, {.scale = seconds_, .base = base}, end, seconds.data() + level);
  }
  if (stored == 0) return;
  const double above = base + LostSecondsOf(s, t, top_[s]);
  for (size_t level = stored; level < seconds.size(); ++level) {
    seconds[level] = std::min(seconds[level], above);
  }
}

double RotorTable::LostSecondsOf(int s, int t, int64_t level) const {
  return seconds_ * static_cast<double>(LostAt(View(), s, t, std::min<int64_t>(level, top_[s])));
}

std::optional<Schedule> RotorTable::Unroll(const RotorPart& root) const {
  return UnrollChoices(
      root, [this, view = View()](const RotorPart& part) { return BestChoice(view, part); },
      ways_.empty() ? OneStage::kOwnWay : OneStage::kChosen);
}

std::optional<Schedule> RotorTable::PartScheduleAt(int s, int t, int64_t level) const {
  const int64_t highest = std::min<int64_t>(level, top_[s]);
  if (LostAt(View(), s, t, highest) == kNever) return std::nullopt;
  return Unroll({s + 1, t + 1, highest});
}

std::optional<Schedule> RotorTable::ScheduleAt(int64_t level) const {
  if (!LostSecondsAt(level).has_value()) return std::nullopt;
  return Unroll({1, sizes_.stages(), RootLevel(level)});
}

}  // namespace stowage
