#include "solver/algorithms/rotor_table.h"

#include <algorithm>
#include <limits>

#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr double kInfeasible = std::numeric_limits<double>::infinity();

double TieSeconds(const Chain& chain) {
  constexpr double kShare = 1e-15;
  double forward_seconds = chain.loss.forward_seconds;
  for (const Stage& stage : chain.stages) forward_seconds += stage.forward_seconds;
  return forward_seconds > 0 ? kShare * forward_seconds : 1;
}

}  // namespace

int64_t SlotGrid::Slots(int64_t size_bytes) const {
  if (size_bytes == 0 || bytes == 0) return size_bytes;  // without memory, more than every level
  __extension__ using Wide = __int128;
  const Wide product = static_cast<Wide>(size_bytes) * slots;
  const Wide half = rounding == Rounding::kUp ? static_cast<Wide>(bytes) - 1 : bytes / 2;
  return static_cast<int64_t>((product + half) / bytes);
}

RotorTable::RotorTable(const Chain& chain, const SlotGrid& grid, int64_t levels)
    : chain_(&chain),
      grid_(grid),
      tie_seconds_(TieSeconds(chain)),
      index_(chain.length() + 1),
      width_(static_cast<size_t>(levels) + 1),
      lost_seconds_(std::make_unique_for_overwrite<double[]>(index_.size() * width_)) {
  for (int l = 0; l <= chain.length() + 1; ++l) {
    output_slots_.push_back(grid.Slots(chain.output_bytes(l)));
    saved_slots_.push_back(l == 0 ? 0 : grid.Slots(chain.saved_bytes(l)));
  }
}

int64_t RotorTable::WorkingBytes(const Chain& chain, int64_t levels) {
  const auto pairs = static_cast<int64_t>(PairIndex(chain.length() + 1).size());
  return SaturatingMultiply(SaturatingMultiply(pairs, levels + 1), sizeof(double));
}

absl::StatusOr<RotorTable> RotorTable::Build(const Chain& chain, const SlotGrid& grid,
                                             int64_t levels, const SolveContext& context) {
  RotorTable table(chain, grid, levels);
  const int last = chain.length() + 1;
  size_t filled = 0;
  for (int length = 1; length <= last; ++length) {
    for (int s = 1; s + length - 1 <= last; ++s) {
      RETURN_IF_ERROR(context.CheckStop());
      table.FillRow(s, s + length - 1);
      ++filled;
    }
    context.Report(static_cast<double>(filled) / static_cast<double>(table.index_.size()));
  }
  return table;
}

void RotorTable::FillRow(int s, int t) {
  const auto width = static_cast<int64_t>(width_);
  double* const row = Row(s, t);
  std::fill_n(row, width, kInfeasible);
  const int64_t save_need = grid_.Slots(SaveNeedBytes(*chain_, s, t));
  if (s == t) {
    for (int64_t m = save_need; m < width; ++m) row[m] = 0;
    return;
  }
  const double* const saved_rest = Row(s + 1, t);
  const int64_t saved = saved_slots_[s];
  for (int64_t m = std::max(save_need, saved); m < width; ++m) row[m] = saved_rest[m - saved];

  double sweep_seconds = 0;
  int64_t sweep_need = 0;
  for (int split = s + 1; split <= t && !chain_->stage(split - 1).no_recompute; ++split) {
    sweep_seconds += SweepSeconds(split - 1);
    sweep_need = std::max(sweep_need, grid_.Slots(SweepNeedBytes(*chain_, s, split - 1, t)));
    const int64_t kept = output_slots_[split - 1];
    const double* const rest = Row(split, t);
    const double* const again = Row(s, split - 1);
    for (int64_t m = std::max(sweep_need, kept); m < width; ++m) {
      row[m] = std::min(row[m], sweep_seconds + rest[m - kept] + again[m]);
    }
  }
}

RotorChoice RotorTable::BestChoice(const RotorPart& part) const {
  const auto [s, t, m] = part;
  const double best = Row(s, t)[m];
  const int64_t saved = saved_slots_[s];
  if (m >= std::max(grid_.Slots(SaveNeedBytes(*chain_, s, t)), saved) &&
      Row(s + 1, t)[m - saved] <= best) {
    return {0, m - saved};
  }
  double sweep_seconds = 0;
  int64_t sweep_need = 0;
  for (int split = s + 1; split < t; ++split) {
    sweep_seconds += SweepSeconds(split - 1);
    sweep_need = std::max(sweep_need, grid_.Slots(SweepNeedBytes(*chain_, s, split - 1, t)));
    const int64_t kept = output_slots_[split - 1];
    if (m >= std::max(sweep_need, kept) &&
        sweep_seconds + Row(split, t)[m - kept] + Row(s, split - 1)[m] <= best) {
      return {split, m - kept};
    }
  }
  return {t, m - output_slots_[t - 1]};
}

std::optional<Schedule> RotorTable::ScheduleAt(int64_t level) const {
  const int last = chain_->length() + 1;
  const int64_t root_level = level - output_slots_[0];
  if (root_level < 0 || Row(1, last)[root_level] == kInfeasible) return std::nullopt;
  return UnrollChoices({1, last, root_level},
                       [this](const RotorPart& part) { return BestChoice(part); });
}

}  // namespace stowage
