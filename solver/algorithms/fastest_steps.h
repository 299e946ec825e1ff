// The least time that a part of a chain loses, as a step function of its memory: the merge of
// (RR-9302, Theorem 1) that RotorSteps and PartSequences share. The functions are non-increasing
// and piecewise constant, stored as the list of their steps; sums and minima of such functions are
// merges of these lists.
#ifndef STOWAGE_SOLVER_ALGORITHMS_FASTEST_STEPS_H_
#define STOWAGE_SOLVER_ALGORITHMS_FASTEST_STEPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace stowage {

// The minimum over the choices for one part so far. `Step` has peak_bytes and lost_seconds: from
// those bytes on, up to the next step, the part loses so much time. Not thread-safe.
template <typename Step>
class FastestSteps {
 public:
  // Checkpointing the first stage and splitting. The rest runs beside the checkpoint, the front
  // after it.
  struct Split {
    std::span<const Step> rest;
    std::span<const Step> front;
    int64_t checkpoint_bytes = 0;
    int64_t sweep_bytes = 0;  // what the forwards up to the split need
    double sweep_seconds = 0;
  };

  // Steps beyond `max_bytes` are left out, and so are those that gain no more than `min_gain`
  // seconds, which is rounding.
  FastestSteps(int64_t max_bytes, double min_gain) : max_bytes_(max_bytes), min_gain_(min_gain) {}

  // By growing peak_bytes and falling lost_seconds.
  std::vector<Step>& steps() { return steps_; }

  // Replaces the steps by those of saving the first stage: it keeps `saved_bytes` beside a step of
  // `rest`, and needs `need_bytes` by itself. `make(peak_bytes, lost_seconds, i)` returns the step
  // that runs step i of the rest.
  template <typename Make>
  void SetToSaving(std::span<const Step> rest, int64_t need_bytes, int64_t saved_bytes, Make make) {
    merged_.clear();
    for (size_t i = 0; i < rest.size(); ++i) {
      const int64_t peak = std::max(need_bytes, saved_bytes + rest[i].peak_bytes);
      if (peak > max_bytes_) break;
      AppendIfFaster(make(peak, rest[i].lost_seconds, i));
    }
    steps_.swap(merged_);
  }

  // The minimum with saving it in a way that loses `lost_seconds` more. Returns the number of steps
  // that were merged.
  template <typename Make>
  int64_t LowerBySaving(std::span<const Step> rest, int64_t need_bytes, int64_t saved_bytes,
                        double lost_seconds, Make make) {
    merged_.clear();
    auto old = steps_.begin();
    for (size_t i = 0; i < rest.size(); ++i) {
      const int64_t peak = std::max(need_bytes, saved_bytes + rest[i].peak_bytes);
      if (peak > max_bytes_) break;
      while (old != steps_.end() && old->peak_bytes <= peak) AppendIfFaster(*old++);
      AppendIfFaster(make(peak, rest[i].lost_seconds + lost_seconds, i));
    }
    while (old != steps_.end()) AppendIfFaster(*old++);
    const size_t merged = rest.size() + steps_.size();
    steps_.swap(merged_);
    return static_cast<int64_t>(merged);
  }

  // The minimum with the split, whose function is the sum of the rest's and the front's. `make(
  // peak_bytes, lost_seconds, i, j)` returns the step that runs step i of the rest and j of the
  // front. Returns the number of steps that were merged; 0: the split cannot be faster.
  template <typename Make>
  int64_t LowerBySplit(const Split& split, Make make) {
    const std::span<const Step> rest = split.rest;
    const std::span<const Step> front = split.front;
    if (rest.empty() || front.empty()) return 0;
    // The least memory of this case: the sweep and both parts must fit.
    const int64_t least =
        std::max({split.sweep_bytes, split.checkpoint_bytes + rest.front().peak_bytes,
                  front.front().peak_bytes});
    if (least > max_bytes_) return 0;
    // Skip the case if even its fastest value is no better than what there is at its least memory.
    const double end = split.sweep_seconds + rest.back().lost_seconds + front.back().lost_seconds;
    const auto after =
        std::upper_bound(steps_.begin(), steps_.end(), least,
                         [](int64_t bytes, const Step& step) { return bytes < step.peak_bytes; });
    if (after != steps_.begin() && std::prev(after)->lost_seconds <= end) return 0;

    // Merge by growing memory. The sum has a step where either has one. i and j are the fastest
    // that fit `at`; `old` runs through the steps at the same pace.
    size_t i = 0;
    size_t j = 0;
    const auto rest_peak = [&](size_t index) {
      return index < rest.size() ? split.checkpoint_bytes + rest[index].peak_bytes : INT64_MAX;
    };
    const auto front_peak = [&](size_t index) {
      return index < front.size() ? front[index].peak_bytes : INT64_MAX;
    };
    while (rest_peak(i + 1) <= least) ++i;
    while (front_peak(j + 1) <= least) ++j;
    merged_.clear();
    auto old = steps_.begin();
    int64_t at = least;
    while (true) {
      while (old != steps_.end() && old->peak_bytes <= at) AppendIfFaster(*old++);
      const double lost = split.sweep_seconds + rest[i].lost_seconds + front[j].lost_seconds;
      AppendIfFaster(make(at, lost, i, j));
      const int64_t rest_at = rest_peak(i + 1);
      const int64_t front_at = front_peak(j + 1);
      at = std::min(rest_at, front_at);
      if (at > max_bytes_ || at == INT64_MAX) break;
      if (rest_at == at) ++i;
      if (front_at == at) ++j;
    }
    while (old != steps_.end()) AppendIfFaster(*old++);
    const size_t merged = rest.size() + front.size() + steps_.size();
    steps_.swap(merged_);
    return static_cast<int64_t>(merged);
  }

 private:
  // Appends to merged_ unless its last step, which needs no more memory, is as fast. Of equal bytes
  // the faster one stays. Requires: calls come by growing peak_bytes.
  void AppendIfFaster(const Step& step) {
    if (merged_.empty()) {
      merged_.push_back(step);
    } else if (step.lost_seconds < merged_.back().lost_seconds - min_gain_) {
      if (merged_.back().peak_bytes == step.peak_bytes) {
        merged_.back() = step;
      } else {
        merged_.push_back(step);
      }
    }
  }

  int64_t max_bytes_;
  double min_gain_;
  std::vector<Step> steps_;
  std::vector<Step> merged_;  // the next steps_ while it is computed
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_FASTEST_STEPS_H_
