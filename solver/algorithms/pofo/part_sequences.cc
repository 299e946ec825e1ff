#include "solver/algorithms/pofo/part_sequences.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr int kMostSlower = 32;  // slower sequences a part

}  // namespace

PartSequences::PartSequences(const Chain& chain, const Options& options)
    : options_(options),
      sizes_(MakePartSizes<int64_t>(chain, Saving::kAlways, [](int64_t bytes) { return bytes; })),
      most_stages_(std::min(options.most_stages, sizes_.stages())),
      ranges_(static_cast<size_t>(sizes_.stages()) * static_cast<size_t>(most_stages_)),
      worth_(static_cast<size_t>(sizes_.stages())) {
  forward_.push_back(0);
  step_.push_back(0);
  for (int l = 1; l <= sizes_.stages(); ++l) {
    const Stage& stage = chain.stage(l);
    forward_.push_back(forward_.back() + stage.forward_seconds);
    step_.push_back(step_.back() + stage.forward_seconds + stage.backward_seconds);
  }
  // Of equally fast sequences one with few operations wins.
  constexpr double kTieShare = 1e-12;
  constexpr double kNoiseShare = 1e-14;
  const double total = forward_.back();
  tie_seconds_ = kTieShare * (total > 0 ? total : std::max(step_.back(), 1e-9));
  least_gain_ = kNoiseShare * total;
}

int64_t PartSequences::WorkingBytes(int stages, const Options& options) {
  const int64_t count = stages + 1;
  const int64_t parts = count * std::min<int64_t>(options.most_stages, count);
  const int64_t slower = count * options.slower_up_to * kMostSlower;
  const int64_t kept =
      (parts * (options.most_steps_per_part + 2) + slower) * static_cast<int64_t>(sizeof(Sequence));
  // A vector that grows has up to twice what it holds, and its old half beside it. Without a limit
  // on their length half of the parts are empty.
  const int64_t grown = options.most_stages < count ? 3 * kept : 3 * kept / 2;
  return grown + parts * static_cast<int64_t>(sizeof(Range));
}

absl::StatusOr<PartSequences> PartSequences::Build(const Chain& chain, const Options& options,
                                                   const SolveContext& context) {
  PartSequences parts(chain, options);
  const int count = chain.length();  // the loss never runs again
  for (int s = count - 1; s >= 0; --s) {
    for (int t = s; t < std::min(count, s + parts.most_stages_); ++t) {
      if (t % 64 == 0 || t == s) RETURN_IF_ERROR(context.CheckStop());
      // A stage that runs once is in no part that runs again.
      if (chain.stage(t + 1).no_recompute) break;
      if (parts.ForwardSeconds(s, t) > options.most_recompute_seconds) break;
      parts.FillPart(s, t);
    }
  }
  parts.best_ = parts.merged_ = {};
  return parts;
}

// Appends to merged_ unless an earlier step, which needs less, is as good.
void PartSequences::Take(const Sequence& step) {
  if (merged_.empty()) {
    merged_.push_back(step);
  } else if (step.lost_seconds < merged_.back().lost_seconds - least_gain_) {
    if (merged_.back().peak_bytes == step.peak_bytes) {
      merged_.back() = step;
    } else {
      merged_.push_back(step);
    }
  }
}

void PartSequences::LowerBySaving(int s, int t) {
  const int64_t need = sizes_.SaveNeed(s, t);
  const Range rest = RangeOf(s + 1, t);
  merged_.clear();
  for (int32_t i = rest.begin; i < rest.end; ++i) {
    const int64_t peak = std::max(need, sizes_.saved[s] + sequences_[i].peak_bytes);
    if (peak > options_.memory_bytes) break;
    Take({peak, sequences_[i].lost_seconds, 0, -1, i, -1});
  }
  best_.swap(merged_);
}

// best_ = the lower envelope of best_ and of all that checkpoints s and splits after k.
void PartSequences::Lower(int s, int k, int t, int64_t sweep_need) {
  const Range rest = RangeOf(k + 1, t);
  const Range front = RangeOf(s, k);
  if (rest.begin == rest.end || front.begin == front.end) return;
  const double sweep = forward_[k + 1] - forward_[s] + tie_seconds_ * (k + 1 - s);
  const int64_t kept = sizes_.output[k];
  const int64_t least = std::max(
      {sweep_need, kept + sequences_[rest.begin].peak_bytes, sequences_[front.begin].peak_bytes});
  if (least > options_.memory_bytes) return;
  // Nothing to gain where even the end of this choice is no better than what its start's memory
  // has.
  const double end =
      sweep + sequences_[rest.end - 1].lost_seconds + sequences_[front.end - 1].lost_seconds;
  const auto after =
      std::upper_bound(best_.begin(), best_.end(), least,
                       [](int64_t bytes, const Sequence& step) { return bytes < step.peak_bytes; });
  if (after != best_.begin() && std::prev(after)->lost_seconds <= end) return;

  // The sum of two step functions steps where either does.
  int32_t i = rest.begin;
  int32_t j = front.begin;
  while (i + 1 < rest.end && kept + sequences_[i + 1].peak_bytes <= least) ++i;
  while (j + 1 < front.end && sequences_[j + 1].peak_bytes <= least) ++j;
  merged_.clear();
  auto old = best_.begin();
  int64_t at = least;
  while (true) {
    const Sequence next{
        at, sweep + sequences_[i].lost_seconds + sequences_[j].lost_seconds, 0, k, i, j};
    while (old != best_.end() && old->peak_bytes <= at) Take(*old++);
    Take(next);
    const int64_t rest_at = i + 1 < rest.end ? kept + sequences_[i + 1].peak_bytes : INT64_MAX;
    const int64_t front_at = j + 1 < front.end ? sequences_[j + 1].peak_bytes : INT64_MAX;
    at = std::min(rest_at, front_at);
    if (at > options_.memory_bytes) break;
    if (rest_at == at) ++i;
    if (front_at == at) ++j;
  }
  while (old != best_.end()) Take(*old++);
  best_.swap(merged_);
}

// Leaves the first and the last step of best_, and between them those that gain enough: a share of
// what the part costs to run again, so that cheap sequences are told apart finely.
void PartSequences::Thin(int s, int t) {
  if (best_.size() <= static_cast<size_t>(options_.most_steps_per_part)) return;
  const double once = ForwardSeconds(s, t);
  const double range = (once + best_.front().lost_seconds) / (once + best_.back().lost_seconds);
  const double factor = std::pow(range, 1.0 / options_.most_steps_per_part);
  size_t kept = 1;
  for (size_t i = 1; i < best_.size(); ++i) {
    const bool gains =
        once + best_[kept - 1].lost_seconds >= factor * (once + best_[i].lost_seconds);
    if (gains || i + 1 == best_.size()) best_[kept++] = best_[i];
  }
  best_.resize(kept);
}

// Parts that differ by a stage are split in much the same places: of long ones only those near the
// splits of their neighbours are tried.
void PartSequences::MarkSplits(int s, int t) {
  if (t - s < options_.all_splits_up_to) {
    std::fill(worth_.begin() + s, worth_.begin() + t, uint8_t{1});
    return;
  }
  std::fill(worth_.begin() + s, worth_.begin() + t, uint8_t{0});
  const auto mark = [this, s, t](const Range& range) {
    for (int32_t i = range.begin; i < range.end; ++i) {
      const int k = sequences_[i].split;
      if (k < 0) continue;
      for (int near = std::max(s, k - 1); near <= std::min(t - 1, k + 1); ++near) worth_[near] = 1;
    }
  };
  worth_[s] = 1;
  mark(RangeOf(s, t - 1));
  mark(RangeOf(s + 1, t));
}

void PartSequences::FillPart(int s, int t) {
  best_.clear();
  if (s == t) {
    const int64_t need = sizes_.SaveNeed(s, t);
    if (need <= options_.memory_bytes) best_.push_back({need, 0, 0, -1, -1, -1});
  } else {
    LowerBySaving(s, t);
    MarkSplits(s, t);
    int64_t sweep = 0;
    for (int k = s; k < t; ++k) {
      sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
      if (sweep + sizes_.gradient[t] > options_.memory_bytes) break;
      if (worth_[k] != 0) Lower(s, k, t, sweep + sizes_.gradient[t]);
    }
  }
  const double most_lost = options_.most_recompute_seconds - ForwardSeconds(s, t);
  std::erase_if(best_, [most_lost](const Sequence& step) { return step.lost_seconds > most_lost; });
  Thin(s, t);
  const auto envelope = best_.size();
  if (options_.prefetch_bytes_per_second > 0) {
    for (Sequence& step : best_) step.reach_seconds = ReachOf(s, t, step);
    if (t - s < options_.slower_up_to) AddSlower(s, t, most_lost);
  }
  const auto begin = static_cast<int32_t>(sequences_.size());
  ranges_[static_cast<size_t>(s) * static_cast<size_t>(most_stages_) + static_cast<size_t>(t - s)] =
      {begin, begin + static_cast<int32_t>(envelope), begin + static_cast<int32_t>(best_.size())};
  sequences_.insert(sequences_.end(), best_.begin(), best_.end());
}

// Behind best_: of all combinations of what the smaller parts have those that no other beats in
// peak, lost seconds and V at once.
void PartSequences::AddSlower(int s, int t, double most_lost) {
  const size_t most = best_.size() + kMostSlower;
  const auto add = [this, s, t, most, most_lost](const Sequence& sequence) {
    if (best_.size() == most || sequence.lost_seconds > most_lost) return;
    if (sequence.peak_bytes > options_.memory_bytes) return;
    AddSlowerUnlessUseless(s, t, sequence);
  };
  if (s == t) return;
  const Range& saved_rest = RangeOf(s + 1, t);
  for (int32_t i = saved_rest.begin; i < saved_rest.slower_end; ++i) {
    const Sequence& rest = sequences_[i];
    const int64_t peak = std::max(sizes_.SaveNeed(s, t), sizes_.saved[s] + rest.peak_bytes);
    add({peak, rest.lost_seconds, 0, -1, i, -1});
  }
  int64_t sweep = 0;
  for (int k = s; k < t; ++k) {
    sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
    const int64_t sweep_need = sweep + sizes_.gradient[t];
    const double seconds = forward_[k + 1] - forward_[s] + tie_seconds_ * (k + 1 - s);
    const Range& fronts = RangeOf(s, k);
    const Range& rests = RangeOf(k + 1, t);
    for (int32_t i = rests.begin; i < rests.slower_end; ++i) {
      const Sequence& rest = sequences_[i];
      for (int32_t j = fronts.begin; j < fronts.slower_end; ++j) {
        const Sequence& front = sequences_[j];
        const int64_t peak =
            std::max({sweep_need, sizes_.output[k] + rest.peak_bytes, front.peak_bytes});
        add({peak, seconds + rest.lost_seconds + front.lost_seconds, 0, k, i, j});
      }
    }
  }
}

void PartSequences::AddSlowerUnlessUseless(int s, int t, const Sequence& sequence) {
  const double reach = ReachOf(s, t, sequence);
  const bool useless = std::any_of(best_.begin(), best_.end(), [&](const Sequence& other) {
    return other.peak_bytes <= sequence.peak_bytes &&
           other.lost_seconds <= sequence.lost_seconds + least_gain_ &&
           other.reach_seconds <= reach + least_gain_;
  });
  if (useless) return;
  best_.push_back(sequence);
  best_.back().reach_seconds = reach;
}

double PartSequences::ReachOf(int s, int t, const Sequence& sequence) const {
  const auto seconds = [this](int64_t bytes) {
    return static_cast<double>(bytes) / options_.prefetch_bytes_per_second;
  };
  const double all = StepSeconds(s, t) + sequence.lost_seconds;
  if (sequence.split < 0) {
    const double forward = ForwardSeconds(s, s);
    double reach = std::max(forward + seconds(sizes_.save_forward[s] + sizes_.gradient[t]),
                            all + seconds(sizes_.save_backward[s]));
    if (sequence.rest >= 0) {
      const double rest = sequences_[sequence.rest].reach_seconds;
      reach = std::max(reach, forward + seconds(sizes_.saved[s]) + rest);
    }
    return reach;
  }
  const int k = sequence.split;
  double reach = 0;
  for (int h = s; h <= k; ++h) {
    const int64_t need = (h == s ? sizes_.sweep_first[h] : sizes_.sweep[h]) + sizes_.gradient[t];
    reach = std::max(reach, ForwardSeconds(s, h) + seconds(need));
  }
  const double sweep = ForwardSeconds(s, k);
  const Sequence& rest = sequences_[sequence.rest];
  const double rest_seconds = StepSeconds(k + 1, t) + rest.lost_seconds;
  return std::max({reach, sweep + seconds(sizes_.output[k]) + rest.reach_seconds,
                   sweep + rest_seconds + sequences_[sequence.front].reach_seconds});
}

void PartSequences::Append(int s, int t, int32_t sequence,
                           std::vector<Operation>* operations) const {
  // What is still to come, the next on top: a part, or the backward of stage s where t is -1.
  struct Pending {
    int s;
    int t;
    int32_t sequence;
  };
  std::vector<Pending> pending = {{s, t, sequence}};
  while (!pending.empty()) {
    const Pending part = pending.back();
    pending.pop_back();
    if (part.t < 0) {
      operations->push_back({OperationKind::kBackward, part.s + 1});
      continue;
    }
    const Sequence& choice = At(part.sequence);
    if (choice.split < 0) {
      operations->push_back({OperationKind::kForwardSave, part.s + 1});
      pending.push_back({part.s, -1, -1});
      if (part.s < part.t) pending.push_back({part.s + 1, part.t, choice.rest});
      continue;
    }
    operations->push_back({OperationKind::kForwardCheckpoint, part.s + 1});
    for (int k = part.s + 1; k <= choice.split; ++k) {
      operations->push_back({OperationKind::kForwardDiscard, k + 1});
    }
    pending.push_back({part.s, choice.split, choice.front});
    pending.push_back({choice.split + 1, part.t, choice.rest});
  }
}

}  // namespace stowage
