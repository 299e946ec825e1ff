#include "solver/algorithms/pofo/part_sequences.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "solver/algorithms/fastest_steps.h"
#include "solver/algorithms/part_sizes.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr int kMaxSlower = 32;  // slower sequences kept a part, at most

}  // namespace

PartSequences::PartSequences(const Chain& chain, int max_stages)
    : max_stages_(max_stages),
      ranges_(static_cast<size_t>(chain.length() + 1) * static_cast<size_t>(max_stages)) {
  forward_.push_back(0);
  step_.push_back(0);
  for (int l = 1; l <= chain.length() + 1; ++l) {
    const Stage& stage = chain.stage(l);
    forward_.push_back(forward_.back() + stage.forward_seconds);
    step_.push_back(step_.back() + stage.forward_seconds + stage.backward_seconds);
  }
}

int64_t PartSequences::WorkingBytes(int stages, const Options& options) {
  const int64_t count = stages + 1;
  const int64_t parts = count * std::min<int64_t>(options.max_stages, count);
  const int64_t slower = count * options.slower_up_to * kMaxSlower;
  const int64_t held =
      (parts * (options.max_steps_per_part + 2) + slower) * static_cast<int64_t>(sizeof(Sequence));
  // A growing vector has up to twice the capacity that it uses, and its old half beside it. Without
  // a limit on part length half of the parts [s..t] are empty (t >= count).
  const int64_t grown = options.max_stages < count ? 3 * held : 3 * held / 2;
  return grown + parts * static_cast<int64_t>(sizeof(Range));
}

// Fills a PartSequences, part by part.
class PartSequencesBuilder {
 public:
  using Sequence = PartSequences::Sequence;

  PartSequencesBuilder(const Chain& chain, const PartSequences::Options& options)
      : options_(options),
        sizes_(PartSizesInBytes(chain, Saving::kAlways)),
        parts_(chain, std::min(options.max_stages, sizes_.stages())),
        tries_split_(static_cast<size_t>(sizes_.stages())),
        fastest_(0, 0) {
    // Among equally fast sequences the one with fewer forwards wins: each forward of a sweep is
    // charged a tie-breaking time far above rounding errors and far below any measured time.
    constexpr double kTieShare = 1e-12;
    constexpr double kNoiseShare = 1e-14;
    const double total = parts_.forward_.back();
    tie_seconds_ = kTieShare * (total > 0 ? total : std::max(parts_.step_.back(), 1e-9));
    min_gain_ = kNoiseShare * total;
    fastest_ = FastestSteps<Sequence>(options.memory_bytes, min_gain_);
  }

  PartSequencesBuilder(const PartSequencesBuilder&) = delete;  // sequences_ refers into parts_
  PartSequencesBuilder& operator=(const PartSequencesBuilder&) = delete;

  absl::Status FillAll(const Chain& chain, const SolveContext& context);
  PartSequences Take() && { return std::move(parts_); }

 private:
  void FillPart(int s, int t);
  void MarkSplits(int s, int t);
  void LowerBySplit(int s, int k, int t, int64_t sweep_bytes);
  void Thin(int s, int t);
  void AddSlower(int s, int t, double max_lost);
  void AddUnlessDominated(int s, int t, const Sequence& sequence);
  double ReachOf(int s, int t, const Sequence& sequence) const;

  const PartSequences::Options options_;
  const PartSizes<int64_t> sizes_;
  PartSequences parts_;
  std::vector<Sequence>& sequences_ = parts_.sequences_;
  double tie_seconds_;  // charged for each forward of a sweep, to break ties
  double min_gain_;     // seconds; smaller differences are rounding errors

  // Of the part that is being filled.
  std::vector<uint8_t> tries_split_;  // by k: whether the part tries that split
  FastestSteps<Sequence> fastest_;
  std::vector<Sequence>& best_ = fastest_.steps();
};

absl::Status PartSequencesBuilder::FillAll(const Chain& chain, const SolveContext& context) {
  const int count = chain.length();  // the loss is never recomputed
  // By falling s, then growing t: [s+1..t], [k+1..t] and [s..k] are complete before [s..t].
  for (int s = count - 1; s >= 0; --s) {
    for (int t = s; t < std::min(count, s + parts_.max_stages_); ++t) {
      if (t % 64 == 0 || t == s) RETURN_IF_ERROR(context.CheckStop());
      // No recomputed part contains a no_recompute stage, so no longer part from s is possible.
      if (chain.stage(t + 1).no_recompute) break;
      if (parts_.ForwardSeconds(s, t) > options_.max_recompute_seconds) break;
      FillPart(s, t);
    }
  }
  return absl::OkStatus();
}

// best_ = the lower envelope of best_ and of the sequences that checkpoint s and split after k.
void PartSequencesBuilder::LowerBySplit(int s, int k, int t, int64_t sweep_bytes) {
  const PartSequences::Range rest = parts_.RangeOf(k + 1, t);
  const PartSequences::Range front = parts_.RangeOf(s, k);
  fastest_.LowerBySplit(
      {.rest = parts_.Fastest(k + 1, t),
       .front = parts_.Fastest(s, k),
       .checkpoint_bytes = sizes_.output[k],
       .sweep_bytes = sweep_bytes,
       .sweep_seconds = parts_.forward_[k + 1] - parts_.forward_[s] + tie_seconds_ * (k + 1 - s)},
      [=](int64_t peak, double lost, size_t i, size_t j) {
        return Sequence{peak,
                        lost,
                        0,
                        k,
                        rest.begin + static_cast<int32_t>(i),
                        front.begin + static_cast<int32_t>(j)};
      });
}

// Thins best_ to about max_steps_per_part entries. The first and the last stay; between them each
// must be faster than its predecessor by a constant factor of recompute time, so that cheap
// sequences keep a finer resolution than expensive ones.
void PartSequencesBuilder::Thin(int s, int t) {
  if (best_.size() <= static_cast<size_t>(options_.max_steps_per_part)) return;
  const double once = parts_.ForwardSeconds(s, t);
  const double range = (once + best_.front().lost_seconds) / (once + best_.back().lost_seconds);
  const double factor = std::pow(range, 1.0 / options_.max_steps_per_part);
  size_t count = 1;
  for (size_t i = 1; i < best_.size(); ++i) {
    const bool gains =
        once + best_[count - 1].lost_seconds >= factor * (once + best_[i].lost_seconds);
    if (gains || i + 1 == best_.size()) best_[count++] = best_[i];
  }
  best_.resize(count);
}

// Marks the splits that part [s..t] tries. Short parts try all. Long ones try those within a stage
// of a split that [s..t-1] or [s+1..t] use: parts that differ by a stage split in nearly the same
// places.
void PartSequencesBuilder::MarkSplits(int s, int t) {
  if (t - s < options_.all_splits_up_to) {
    std::fill(tries_split_.begin() + s, tries_split_.begin() + t, uint8_t{1});
    return;
  }
  std::fill(tries_split_.begin() + s, tries_split_.begin() + t, uint8_t{0});
  const auto mark = [this, s, t](const PartSequences::Range& range) {
    for (int32_t i = range.begin; i < range.end; ++i) {
      const int k = sequences_[i].split;
      if (k < 0) continue;
      for (int near = std::max(s, k - 1); near <= std::min(t - 1, k + 1); ++near)
        tries_split_[near] = 1;
    }
  };
  tries_split_[s] = 1;
  mark(parts_.RangeOf(s, t - 1));
  mark(parts_.RangeOf(s + 1, t));
}

// Appends the sequences of part [s..t] to sequences_: the lower envelope of saving s and of all
// splits that are tried, without those that recompute too much, thinned out; then the slower ones.
void PartSequencesBuilder::FillPart(int s, int t) {
  best_.clear();
  if (s == t) {
    const int64_t need = sizes_.SaveNeed(s, t);
    if (need <= options_.memory_bytes) best_.push_back({need, 0, 0, -1, -1, -1});
  } else {
    const PartSequences::Range saved = parts_.RangeOf(s + 1, t);
    fastest_.SetToSaving(parts_.Fastest(s + 1, t), sizes_.SaveNeed(s, t), sizes_.saved[s],
                         [saved](int64_t peak, double lost, size_t i) {
                           const auto rest = saved.begin + static_cast<int32_t>(i);
                           return Sequence{peak, lost, 0, -1, rest, -1};
                         });
    MarkSplits(s, t);
    int64_t sweep = 0;  // what the forwards s..k need, δ^t excluded; grows with k
    for (int k = s; k < t; ++k) {
      sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
      if (sweep + sizes_.gradient[t] > options_.memory_bytes) break;
      if (tries_split_[k] != 0) LowerBySplit(s, k, t, sweep + sizes_.gradient[t]);
    }
  }
  const double max_lost = options_.max_recompute_seconds - parts_.ForwardSeconds(s, t);
  std::erase_if(best_, [max_lost](const Sequence& step) { return step.lost_seconds > max_lost; });
  Thin(s, t);
  const auto envelope = best_.size();
  if (options_.prefetch_bytes_per_second > 0) {
    for (size_t i = 0; i < best_.size(); ++i) {
      Sequence& step = best_[i];
      step.reach_seconds = ReachOf(s, t, step);
      step.earlier = static_cast<int32_t>(i) - 1;
      while (step.earlier >= 0 && best_[step.earlier].reach_seconds >= step.reach_seconds) {
        step.earlier = best_[step.earlier].earlier;
      }
    }
    if (t - s < options_.slower_up_to) AddSlower(s, t, max_lost);
  }
  const auto begin = static_cast<int32_t>(sequences_.size());
  parts_.ranges_[parts_.PlaceOf(s, t)] = {begin, begin + static_cast<int32_t>(envelope),
                                          begin + static_cast<int32_t>(best_.size())};
  sequences_.insert(sequences_.end(), best_.begin(), best_.end());
}

// Appends to best_, unordered, the combinations of smaller parts' sequences (fastest and slower)
// that no other dominates in peak, lost_seconds and V at once; kMaxSlower at most.
void PartSequencesBuilder::AddSlower(int s, int t, double max_lost) {
  const size_t most = best_.size() + kMaxSlower;
  const auto add_within_limits = [this, s, t, most, max_lost](const Sequence& sequence) {
    if (best_.size() == most || sequence.lost_seconds > max_lost) return;
    if (sequence.peak_bytes > options_.memory_bytes) return;
    AddUnlessDominated(s, t, sequence);
  };
  if (s == t) return;
  const PartSequences::Range& saved_rest = parts_.RangeOf(s + 1, t);
  for (int32_t i = saved_rest.begin; i < saved_rest.slower_end; ++i) {
    const Sequence& rest = sequences_[i];
    const int64_t peak = std::max(sizes_.SaveNeed(s, t), sizes_.saved[s] + rest.peak_bytes);
    add_within_limits({peak, rest.lost_seconds, 0, -1, i, -1});
  }
  int64_t sweep = 0;
  for (int k = s; k < t; ++k) {
    sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
    const int64_t sweep_need = sweep + sizes_.gradient[t];
    const double seconds = parts_.forward_[k + 1] - parts_.forward_[s] + tie_seconds_ * (k + 1 - s);
    const PartSequences::Range& fronts = parts_.RangeOf(s, k);
    const PartSequences::Range& rests = parts_.RangeOf(k + 1, t);
    for (int32_t i = rests.begin; i < rests.slower_end; ++i) {
      const Sequence& rest = sequences_[i];
      for (int32_t j = fronts.begin; j < fronts.slower_end; ++j) {
        const Sequence& front = sequences_[j];
        const int64_t peak =
            std::max({sweep_need, sizes_.output[k] + rest.peak_bytes, front.peak_bytes});
        add_within_limits({peak, seconds + rest.lost_seconds + front.lost_seconds, 0, k, i, j});
      }
    }
  }
}

// A dominated sequence needs no less memory, loses no less time and has no smaller V than another
// one.
void PartSequencesBuilder::AddUnlessDominated(int s, int t, const Sequence& sequence) {
  const double reach = ReachOf(s, t, sequence);
  const bool dominated = std::any_of(best_.begin(), best_.end(), [&](const Sequence& other) {
    return other.peak_bytes <= sequence.peak_bytes &&
           other.lost_seconds <= sequence.lost_seconds + min_gain_ &&
           other.reach_seconds <= reach + min_gain_;
  });
  if (dominated) return;
  best_.push_back(sequence);
  best_.back().reach_seconds = reach;
}

// V of `sequence`, whose rest and front have theirs; the recursion at the top of the header.
double PartSequencesBuilder::ReachOf(int s, int t, const Sequence& sequence) const {
  const auto seconds = [this](int64_t bytes) {
    return static_cast<double>(bytes) / options_.prefetch_bytes_per_second;
  };
  const double all = parts_.StepSeconds(s, t) + sequence.lost_seconds;  // U
  if (sequence.split < 0) {
    const double forward = parts_.ForwardSeconds(s, s);
    double reach = std::max(forward + seconds(sizes_.save_forward[s] + sizes_.gradient[t]),
                            all + seconds(sizes_.save_backward[s]));
    if (sequence.rest >= 0) {
      const double rest = sequences_[sequence.rest].reach_seconds;
      reach = std::max(reach, forward + seconds(sizes_.saved[s]) + rest);
    }
    return reach;
  }
  // The sweep s..k, then the rest [k+1..t], then the front [s..k].
  const int k = sequence.split;
  double reach = 0;
  for (int h = s; h <= k; ++h) {
    const int64_t need = (h == s ? sizes_.sweep_first[h] : sizes_.sweep[h]) + sizes_.gradient[t];
    reach = std::max(reach, parts_.ForwardSeconds(s, h) + seconds(need));
  }
  const double sweep = parts_.ForwardSeconds(s, k);
  const Sequence& rest = sequences_[sequence.rest];
  const double rest_seconds = parts_.StepSeconds(k + 1, t) + rest.lost_seconds;
  return std::max({reach, sweep + seconds(sizes_.output[k]) + rest.reach_seconds,
                   sweep + rest_seconds + sequences_[sequence.front].reach_seconds});
}

absl::StatusOr<PartSequences> PartSequences::Build(const Chain& chain, const Options& options,
                                                   const SolveContext& context) {
  PartSequencesBuilder builder(chain, options);
  RETURN_IF_ERROR(builder.FillAll(chain, context));
  return std::move(builder).Take();
}

// Runs the recursion of the header in the order of execution.
void PartSequences::AppendOperations(int s, int t, int32_t index,
                                     std::vector<Operation>* operations) const {
  // A stack of pending work: a part, or BACKWARD s where t is -1. An explicit stack, since
  // sequences nest as deep as the chain is long.
  struct Pending {
    int s;
    int t;
    int32_t sequence;
  };
  std::vector<Pending> pending = {{s, t, index}};
  while (!pending.empty()) {
    const Pending part = pending.back();
    pending.pop_back();
    if (part.t < 0) {
      operations->push_back({OperationKind::kBackward, part.s + 1});
      continue;
    }
    const Sequence& choice = At(part.sequence);
    if (choice.split < 0) {
      // Save s, run the rest, then BACKWARD s.
      operations->push_back({OperationKind::kForwardSave, part.s + 1});
      pending.push_back({part.s, -1, -1});
      if (part.s < part.t) pending.push_back({part.s + 1, part.t, choice.rest});
      continue;
    }
    // Checkpoint s and sweep to the split, run the rest, then the front again.
    operations->push_back({OperationKind::kForwardCheckpoint, part.s + 1});
    for (int k = part.s + 1; k <= choice.split; ++k) {
      operations->push_back({OperationKind::kForwardDiscard, k + 1});
    }
    pending.push_back({part.s, choice.split, choice.front});
    pending.push_back({choice.split + 1, part.t, choice.rest});
  }
}

}  // namespace stowage
