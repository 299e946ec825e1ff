#include "solver/algorithms/rematerialization/rotor_steps.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

}  // namespace

RotorSteps::RotorSteps(const Chain& chain, const Options& options)
    : options_(options),
      input_bytes_(chain.input_bytes),
      most_part_bytes_(options.memory_bytes - chain.input_bytes),
      sizes_(MakePartSizes<int64_t>(chain, options.saving, [](int64_t bytes) { return bytes; })),
      index_(sizes_.stages()),
      parts_(index_.size()) {
  // Every forward of a sweep costs a little more than it takes, so that of equally fast schedules
  // one with few operations is chosen.
  constexpr double kTieShare = 1e-12;
  constexpr double kNoiseShare = 1e-14;
  double total = 0;
  for (int l = 1; l <= sizes_.stages(); ++l) total += chain.stage(l).forward_seconds;
  const double tie = total > 0 ? kTieShare * total : 1;
  least_gain_ = total > 0 ? kNoiseShare * total : 0;
  prefix_.push_back(0);
  for (int l = 1; l <= sizes_.stages(); ++l) {
    prefix_.push_back(prefix_.back() + chain.stage(l).forward_seconds + tie);
  }
}

absl::StatusOr<std::optional<RotorSteps>> RotorSteps::Build(const Chain& chain,
                                                            const Options& options,
                                                            const SolveContext& context) {
  RotorSteps steps(chain, options);
  steps.steps_.reserve(options.most_steps);  // growing would need up to three times the memory
  const int count = steps.sizes_.stages();
  // A part depends on parts that start later and on shorter ones with the same start.
  for (int s = count - 1; s >= 0; --s) {
    RETURN_IF_ERROR(context.CheckStop());
    for (int t = s; t < count; ++t) {
      if (!steps.FillPart(s, t)) return std::optional<RotorSteps>();
    }
  }
  steps.best_ = steps.merged_ = {};
  return std::optional<RotorSteps>(std::move(steps));
}

// Appends a step to merged_ unless the last one, which needs no more memory, is as fast. Of equal
// bytes the faster one stays. Requires: steps arrive by increasing bytes.
void RotorSteps::AppendIfLower(const Step& step) {
  if (merged_.empty()) {
    merged_.push_back(step);
  } else if (step.lost < merged_.back().lost - least_gain_) {
    if (merged_.back().bytes == step.bytes) {
      merged_.back() = step;
    } else {
      merged_.push_back(step);
    }
  }
}

// best_ = min(best_, the case of splitting after stage k).
void RotorSteps::LowerBySplit(int s, int k, int t, int64_t sweep_need) {
  const Part rest = PartOf(k + 1, t);
  const Part front = PartOf(s, k);
  if (rest.begin == rest.end || front.begin == front.end) return;
  const double sweep = prefix_[k + 1] - prefix_[s];
  const int64_t kept = sizes_.output[k];
  // The least memory of this case: the sweep and both parts must fit.
  const int64_t least =
      std::max({sweep_need, kept + steps_[rest.begin].bytes, steps_[front.begin].bytes});
  if (least > most_part_bytes_) return;
  // Skip the case if even its fastest value is no better than best_ at its least memory.
  const double end = sweep + steps_[rest.end - 1].lost + steps_[front.end - 1].lost;
  const auto after =
      std::upper_bound(best_.begin(), best_.end(), least,
                       [](int64_t bytes, const Step& step) { return bytes < step.bytes; });
  if (after != best_.begin() && std::prev(after)->lost <= end) return;

  // Merge by increasing memory. The sum of the two step functions has a step where either has one.
  // i and j are the current steps of the rest and the front.
  size_t i = rest.begin;
  size_t j = front.begin;
  while (i + 1 < rest.end && kept + steps_[i + 1].bytes <= least) ++i;
  while (j + 1 < front.end && steps_[j + 1].bytes <= least) ++j;
  merged_.clear();
  auto old = best_.begin();
  Step next{least, sweep + steps_[i].lost + steps_[j].lost};
  while (true) {
    while (old != best_.end() && old->bytes <= next.bytes) AppendIfLower(*old++);
    AppendIfLower(next);
    const int64_t rest_at = i + 1 < rest.end ? kept + steps_[i + 1].bytes : INT64_MAX;
    const int64_t front_at = j + 1 < front.end ? steps_[j + 1].bytes : INT64_MAX;
    const int64_t at = std::min(rest_at, front_at);
    if (at > most_part_bytes_) break;
    if (rest_at == at) ++i;
    if (front_at == at) ++j;
    next = {at, sweep + steps_[i].lost + steps_[j].lost};
  }
  while (old != best_.end()) AppendIfLower(*old++);
  work_ += static_cast<int64_t>(rest.end - rest.begin + front.end - front.begin + best_.size());
  best_.swap(merged_);
}

// best_ = the case of saving stage s: the steps of [s+1..t] shifted by ā^s. The first case of a
// part, so best_ is empty before.
void RotorSteps::LowerBySaving(int s, int t) {
  const int64_t need = sizes_.SaveNeed(s, t);
  merged_.clear();
  for (size_t i = PartOf(s + 1, t).begin; i < PartOf(s + 1, t).end; ++i) {
    const int64_t bytes = std::max(need, sizes_.saved[s] + steps_[i].bytes);
    if (bytes > most_part_bytes_) break;
    AppendIfLower({bytes, steps_[i].lost});
  }
  best_.swap(merged_);
}

// Computes and stores the steps of part [s..t]. Returns false when a limit is exceeded.
bool RotorSteps::FillPart(int s, int t) {
  best_.clear();
  if (s == t) {
    if (sizes_.SaveNeed(s, t) <= most_part_bytes_) best_.push_back({sizes_.SaveNeed(s, t), 0.0});
  } else {
    if (sizes_.may_save[s] != 0) LowerBySaving(s, t);
    int64_t sweep = 0;
    for (int k = s; k < std::min(t, sizes_.sweep_limit[s]); ++k) {
      sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
      if (sweep + sizes_.gradient[t] > most_part_bytes_) break;
      LowerBySplit(s, k, t, sweep + sizes_.gradient[t]);
      if (work_ > options_.most_work) return false;
    }
  }
  if (steps_.size() + best_.size() > options_.most_steps || work_ > options_.most_work)
    return false;
  parts_[index_(s, t)] = {steps_.size(), steps_.size() + best_.size()};
  steps_.insert(steps_.end(), best_.begin(), best_.end());
  return true;
}

// The lost seconds within `bytes`: those of the last step at or below it; infinite before the
// first.
double RotorSteps::LostAt(int s, int t, int64_t bytes) const {
  const Part part = PartOf(s, t);
  const auto begin = steps_.begin() + static_cast<std::ptrdiff_t>(part.begin);
  const auto end = steps_.begin() + static_cast<std::ptrdiff_t>(part.end);
  const auto after = std::upper_bound(begin, end, bytes,
                                      [](int64_t at, const Step& step) { return at < step.bytes; });
  if (after == begin) return kNone;
  return std::prev(after)->lost;
}

// Evaluates the recurrence at one amount of memory. A later split must gain more than rounding.
RotorChoice RotorSteps::BestChoice(const RotorPart& part) const {
  const int s = part.s - 1;
  const int t = part.t - 1;
  RotorChoice best;
  double least = kNone;
  if (sizes_.may_save[s] != 0 && part.level >= sizes_.SaveNeed(s, t)) {
    best = {0, part.level - sizes_.saved[s]};
    least = LostAt(s + 1, t, best.remaining_level);
  }
  int64_t sweep = 0;
  for (int k = s; k < std::min(t, sizes_.sweep_limit[s]); ++k) {
    sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
    if (part.level < sweep + sizes_.gradient[t]) break;
    const int64_t rest = part.level - sizes_.output[k];
    const double lost =
        prefix_[k + 1] - prefix_[s] + LostAt(k + 1, t, rest) + LostAt(s, k, part.level);
    if (lost < least - least_gain_) {
      least = lost;
      best = {k + 2, rest};
    }
  }
  return best;
}

std::optional<Schedule> RotorSteps::ScheduleWithin(int64_t memory_bytes) const {
  const int last = sizes_.stages();
  const int64_t root = memory_bytes - input_bytes_;
  if (LostAt(0, last - 1, root) == kNone) return std::nullopt;
  return UnrollChoices({1, last, root}, [this](const RotorPart& part) { return BestChoice(part); });
}

}  // namespace stowage
