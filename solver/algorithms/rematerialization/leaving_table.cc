#include "solver/algorithms/rematerialization/leaving_table.h"

#include <algorithm>
#include <span>

#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"
#include "solver/kernels/min_sum.h"

namespace stowage {
namespace {

// Sizes in slots, up to one more than there are levels.
auto SlotsUpTo(const LeavingTable::Options& options) {
  return [&options](int64_t bytes) {
    return static_cast<int32_t>(std::min(options.levels + 1, options.grid.Slots(bytes)));
  };
}

}  // namespace

LeavingTable::LeavingTable(const Chain& chain, const Options& options)
    : options_(options),
      input_slots_(SlotsUpTo(options)(chain.input_bytes)),
      sizes_(MakePartSizes<int32_t>(chain, options.saving, SlotsUpTo(options))),
      ways_(chain, SlotsUpTo(options)),
      times_(chain),
      index_(chain.length() + 1) {
  const int count = sizes_.stages();
  size_t leaving_parts = 0;
  for (int s = 0; s < count; ++s) {
    leaving_rows_.push_back(leaving_parts);
    if (sizes_.may_leave[s] != 0) leaving_parts += static_cast<size_t>(count - s);
  }
  staying_ = MakeLargeBuffer<double>(index_.size() * stride());
  leaving_ = MakeLargeBuffer<double>(leaving_parts * stride());
  first_.resize(index_.size());
  first_leaving_.resize(index_.size());
}

absl::StatusOr<LeavingTable> LeavingTable::Build(const Chain& chain, const Options& options,
                                                 const SolveContext& context) {
  LeavingTable table(chain, options);
  const int count = table.sizes_.stages();
  // A part depends on parts that start later and on shorter ones with the same start.
  for (int s = count - 1; s >= 0; --s) {
    for (int t = s; t < count; ++t) {
      RETURN_IF_ERROR(context.CheckStop());
      table.FillPart(s, t, /*leaves=*/false);
      if (table.sizes_.may_leave[s] != 0) table.FillPart(s, t, /*leaves=*/true);
    }
    context.Report(static_cast<double>(count - s) / count);
  }
  return table;
}

int64_t LeavingTable::WorkingBytes(const Chain& chain, int64_t levels) {
  const auto parts = static_cast<int64_t>(Triangle(chain.length() + 1).size());
  constexpr int64_t kForms = 2;
  constexpr int64_t kPerStage = 512;  // small vectors
  constexpr int64_t kHugePages = int64_t{2} * (2 << 20);
  const int64_t entries =
      SaturatingMultiply(parts, (levels + 1) * kForms * static_cast<int64_t>(sizeof(double)) +
                                    kForms * static_cast<int64_t>(sizeof(int32_t)));
  return CheckedAdd(entries, (chain.length() + 2) * kPerStage + kHugePages).value_or(INT64_MAX);
}

int64_t LeavingTable::MaxLevels(const Chain& chain) {
  constexpr double kMaxAdditions = 4e9;
  const double stages = chain.length() + 1;
  const double splits = stages * stages * stages / 6;
  constexpr double kForms = 2;
  return static_cast<int64_t>(std::min(1e6, kMaxAdditions / (splits * kForms)));
}

double* LeavingTable::Lost(int s, int t, bool leaves) const {
  if (!leaves || sizes_.may_leave[s] == 0) return staying_.get() + index_(s, t) * stride();
  return leaving_.get() + (leaving_rows_[s] + static_cast<size_t>(t - s)) * stride();
}

void LeavingTable::FillPart(int s, int t, bool leaves) {
  double* const lost = Lost(s, t, leaves);
  std::fill_n(lost, stride(), kInfiniteSeconds);
  LowerBySaving(s, t, leaves, lost);
  LowerBySplits(s, t, leaves, lost);
  size_t first = 0;
  while (first < stride() && lost[first] == kInfiniteSeconds) ++first;
  (leaves ? first_leaving_ : first_)[index_(s, t)] = static_cast<int32_t>(first);
}

void LeavingTable::LowerBySaving(int s, int t, bool leaves, double* lost) const {
  const auto levels = options_.levels;
  if (s < t && sizes_.may_save[s] == 0) return;
  const double* const rest = s < t ? Lost(s + 1, t, false) : nullptr;
  for (const auto& way : ways_.of(s)) {
    const Saved saved = SavedIn<int32_t>(way, sizes_, s, t, leaves);
    if (s == t) {
      for (int64_t m = std::max<int64_t>(0, saved.need); m <= levels; ++m) {
        lost[m] = std::min(lost[m], way.lost_seconds);
      }
      continue;
    }
    // Once the input has left, the rest may have more memory than the part.
    for (int64_t m = std::max<int64_t>({0, saved.need, saved.taken}); m <= levels; ++m) {
      lost[m] = std::min(lost[m], way.lost_seconds + rest[std::min(levels, m - saved.taken)]);
    }
  }
}

void LeavingTable::LowerBySplits(int s, int t, bool leaves, double* lost) const {
  const auto levels = options_.levels;
  const std::vector<int32_t>& front_first =
      leaves && sizes_.may_leave[s] != 0 ? first_leaving_ : first_;
  int32_t sweep = 0;
  for (int k = s; k < std::min(t, sizes_.sweep_limit[s]); ++k) {
    sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
    const int64_t need = sweep + sizes_.gradient[t];
    if (need > levels) break;
    const bool rest_leaves = sizes_.may_leave[k + 1] != 0;
    const int64_t rest_first = (rest_leaves ? first_leaving_ : first_)[index_(k + 1, t)];
    const int64_t from =
        std::max({need, sizes_.output[k] + rest_first, int64_t{front_first[index_(s, k)]}});
    const double base = times_.Seconds(s, k);
    if (from > levels) continue;
    // lost[] does not grow with the level: from some level on it is no more than the sweep alone.
    const double* const end = std::partition_point(lost + from, lost + levels + 1,
                                                   [base](double so_far) { return so_far > base; });
    const SumTerm term{.a = Lost(k + 1, t, true) + (from - sizes_.output[k]),
                       .b = Lost(s, k, leaves) + from,
                       .base = base};
    LowerToTerms(std::span(&term, 1), static_cast<size_t>(end - (lost + from)), lost + from);
  }
}

double LeavingTable::LostAt(int s, int t, bool leaves, int64_t level) const {
  if (level < 0) return kInfiniteSeconds;
  return Lost(s, t, leaves)[std::min(level, options_.levels)];
}

std::optional<double> LeavingTable::LostSecondsAt(int64_t level) const {
  const double lost = LostAt(0, sizes_.stages() - 1, true, level - input_slots_);
  if (lost == kInfiniteSeconds) return std::nullopt;
  return lost;
}

std::optional<Schedule> LeavingTable::ScheduleAt(int64_t level) const {
  if (!LostSecondsAt(level).has_value()) return std::nullopt;
  return UnrollChoices(
      {1, sizes_.stages(), level - input_slots_, sizes_.may_leave[0] != 0},
      [this](const RotorPart& part) {
        return FastestChoice(
            part, sizes_, ways_, times_,
            [this](int s, int t, bool leaves, int64_t at) { return LostAt(s, t, leaves, at); });
      },
      OneStage::kChosen);
}

}  // namespace stowage
