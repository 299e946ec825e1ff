#include "solver/bounds/short_chain_search.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "solver/base/checked_math.h"
#include "solver/bounds/stage_costs.h"
#include "solver/model/chain_units.h"
#include "solver/model/prediction.h"

namespace stowage {
namespace {

using Costs = StageCosts<kMaxShortChainStages>;
constexpr int kMaxValues = Costs::kMaxValues;

enum Form : uint64_t { kNone = 0, kOutput = 1, kSaved = 2 };

// Two bits a value, then the gradient, then whether a replay was the last operation: nothing but
// its backward may follow.
class State {
 public:
  State(int gradient, uint64_t values)
      : bits_(values | (static_cast<uint64_t>(gradient) << kGradientAt)) {}

  uint64_t bits() const { return bits_; }
  int gradient() const { return static_cast<int>((bits_ >> kGradientAt) & 15); }
  bool replayed() const { return ((bits_ >> kReplayedAt) & 1) != 0; }
  Form form(int l) const {
    assert(l >= 0);
    return static_cast<Form>((bits_ >> (2 * l)) & 3);
  }
  bool live(int l) const { return form(l) != kNone; }

  void Set(int l, Form form) {
    bits_ = (bits_ & ~(uint64_t{3} << (2 * l))) | (static_cast<uint64_t>(form) << (2 * l));
  }
  void SetGradient(int l) {
    bits_ &= (uint64_t{1} << kGradientAt) - 1;
    bits_ |= static_cast<uint64_t>(l) << kGradientAt;
  }
  void SetReplayed() { bits_ |= uint64_t{1} << kReplayedAt; }

 private:
  static constexpr int kGradientAt = 2 * kMaxValues;
  static constexpr int kReplayedAt = kGradientAt + 4;

  uint64_t bits_;
};

// For a run of stages, what saving some of them takes and what running the others again takes:
// those choices of which no other is better in both, by bytes.
class SavedChoices {
 public:
  // Puts stage l in front.
  SavedChoices With(const Costs& costs, int l) const {
    std::vector<Choice> all;
    for (const Choice& choice : choices_) {
      all.push_back({choice.bytes + costs.saved[l], choice.seconds});
      if (!costs.once[l]) all.push_back({choice.bytes, choice.seconds + costs.replay[l]});
    }
    std::sort(all.begin(), all.end(), [](const Choice& a, const Choice& b) {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.seconds < b.seconds;
    });
    SavedChoices result;
    result.choices_.clear();
    for (const Choice& choice : all) {
      if (result.choices_.empty() || choice.seconds < result.choices_.back().seconds) {
        result.choices_.push_back(choice);
      }
    }
    return result;
  }

  double LeastSeconds(int64_t bytes) const {
    const auto after =
        std::upper_bound(choices_.begin(), choices_.end(), bytes,
                         [](int64_t most, const Choice& choice) { return most < choice.bytes; });
    return after == choices_.begin() ? kInfiniteSeconds : std::prev(after)->seconds;
  }

 private:
  struct Choice {
    int64_t bytes = 0;
    double seconds = 0;
  };

  std::vector<Choice> choices_ = {{}};  // bytes ascend, seconds descend
};

// R(k) of the header, for every k.
class TimeAfterBackward {
 public:
  TimeAfterBackward(const Costs& costs, int64_t memory_bytes)
      : costs_(costs), memory_bytes_(memory_bytes) {
    for (int last = 1; last <= costs.loss; ++last) {
      choices_[last].resize(static_cast<size_t>(last) + 2);
      for (int first = last; first >= 1; --first) {
        choices_[last][first] = choices_[last][first + 1].With(costs, first);
      }
    }
    for (int k = 2; k <= costs.loss; ++k) {
      double backwards = 0;
      for (int j = k - 1; j >= 1; --j) {
        backwards += costs.backward[j];
        seconds_[k] = std::max(seconds_[k], backwards + ForwardsBetween(j, k) + seconds_[j]);
      }
    }
  }

  double operator[](int k) const { return seconds_[k]; }

 private:
  // The least time of forwards after B_k and before B_j, over what may be live during B_k: every
  // stage in j..k-1 that is not saved runs, and what brings back the input of stage k-1.
  double ForwardsBetween(int j, int k) const {
    const int g = k - 1;
    const int64_t bytes = memory_bytes_ - costs_.saved[k] - costs_.gradient[k] -
                          costs_.gradient[g] - costs_.backward_overhead[k];
    double least = costs_.unread[g] ? SavedBelow(j, g, bytes - costs_.saved[g]) : kInfiniteSeconds;
    const int64_t input = costs_.unread[k] ? 0 : costs_.output[g];
    double path = 0;  // forwards of p+1..g-1
    for (int p = g - 1; p >= 0; --p) {
      least = std::min(least, path + FromValue(j, p, bytes - costs_.saved[g]));
      if (!costs_.once[g]) {
        least = std::min(least, path + costs_.replay[g] + FromValue(j, p, bytes - input));
      }
      if (p == 0 || costs_.once[p]) break;
      path += costs_.forward[p];
    }
    return least;
  }

  // The least time of forwards of stages j..p, where value p is live.
  double FromValue(int j, int p, int64_t bytes) const {
    if (p == 0) return bytes >= costs_.output[0] ? 0 : kInfiniteSeconds;
    const double saved = SavedBelow(j, p, bytes - costs_.saved[p]);
    if (costs_.once[p]) return saved;
    return std::min(saved,
                    (p >= j ? costs_.replay[p] : 0) + SavedBelow(j, p, bytes - costs_.output[p]));
  }

  // The least time of forwards of those stages in j..p-1 that are not saved in `bytes`, which also
  // hold the chain's input and stages below j that run once.
  double SavedBelow(int j, int p, int64_t bytes) const {
    if (!costs_.unread[1]) bytes -= costs_.output[0];
    for (int l = 1; l < std::min(j, p); ++l) bytes -= costs_.once[l] ? costs_.saved[l] : 0;
    if (p - 1 < j) return bytes >= 0 ? 0 : kInfiniteSeconds;
    return choices_[p - 1][j].LeastSeconds(bytes);
  }

  const Costs& costs_;
  const int64_t memory_bytes_;
  std::array<double, kMaxValues> seconds_{};
  // By last and first stage of a run; one past the last is the empty run.
  std::array<std::vector<SavedChoices>, kMaxValues> choices_;
};

class Search {
 public:
  Search(const Chain& chain, const ShortChainLimits& limits, const std::stop_token& stop)
      : costs_(chain),
        limits_(limits),
        stop_(stop),
        after_(costs_, limits.memory_bytes),
        enough_seconds_(limits.below_seconds * (1 - kSummationError)) {}

  std::optional<ShortChainResult> Run() {
    Reach(State(costs_.loss, kOutput), 0, 0, {});
    for (int64_t step = 1; !queue_.empty(); ++step) {
      constexpr int64_t kStepsBetweenLooks = 256;
      if (nodes_.size() > limits_.max_states) return std::nullopt;
      if (step % kStepsBetweenLooks == 0 && stop_.stop_requested()) return std::nullopt;
      const Waiting next = queue_.top();
      queue_.pop();
      if (next.seconds > nodes_[next.node].seconds) continue;  // reached faster since
      if (nodes_[next.node].state.gradient() == 0) {
        return ShortChainResult{ScheduleTo(next.node), next.seconds};
      }
      Expand(next.node);
    }
    return ShortChainResult{std::nullopt, limits_.below_seconds};
  }

 private:
  struct Node {
    State state;
    double seconds = 0;  // of the fastest path so far
    uint32_t from = 0;
    Operation operation;  // the last one of that path
  };
  struct Waiting {
    double bound = 0;
    double seconds = 0;
    uint32_t node = 0;

    // The least bound comes first, and of equal ones the path that has come farthest.
    bool operator<(const Waiting& other) const {
      return bound != other.bound ? bound > other.bound : seconds < other.seconds;
    }
  };

  void Reach(State state, double seconds, uint32_t from, Operation operation) {
    const double bound = seconds + Rest(state);
    if (!(bound < enough_seconds_)) return;
    const auto [it, inserted] =
        numbers_.try_emplace(state.bits(), static_cast<uint32_t>(nodes_.size()));
    if (inserted) {
      nodes_.push_back({state, seconds, from, operation});
    } else if (seconds < nodes_[it->second].seconds) {
      nodes_[it->second] = {state, seconds, from, operation};
    } else {
      return;
    }
    queue_.push({bound, seconds, it->second});
  }

  // The header's lower bound on the time from here on.
  double Rest(State state) const {
    const int g = state.gradient();
    if (g == 0) return 0;
    double seconds = state.form(g) == kSaved ? 0 : costs_.replay[g];
    int read = g;  // the forwards that B_g needs run stages from `read` to g-1
    if (state.form(g) != kSaved || !costs_.unread[g]) {
      for (; !state.live(read - 1); --read) {
        if (read == 1) return kInfiniteSeconds;
        seconds += costs_.forward[read - 1];
      }
    }
    double rest = 0;
    for (int k = g; k >= 1; --k) {
      seconds += costs_.backward[k];
      if (k < read && state.form(k) != kSaved) seconds += costs_.replay[k];
      rest = std::max(rest, seconds + after_[k]);
    }
    return rest;
  }

  int64_t BytesOf(int l, Form form) const {
    return form == kNone ? 0 : form == kOutput ? costs_.output[l] : costs_.saved[l];
  }

  int64_t OnDevice(State state) const {
    int64_t bytes = costs_.gradient[state.gradient()];
    for (int l = 0; l <= state.gradient(); ++l) bytes += BytesOf(l, state.form(l));
    return bytes;
  }

  void Expand(uint32_t node) {
    const State state = nodes_[node].state;
    const int64_t free_bytes = limits_.memory_bytes - OnDevice(state);
    TryBackward(node, state, free_bytes);
    if (state.replayed()) return;
    for (int l = 1; l <= state.gradient(); ++l) {
      if (state.live(l - 1) && !state.live(l)) TryForwards(node, state, l, free_bytes);
    }
  }

  void TryForwards(uint32_t node, State state, int l, int64_t free_bytes) {
    if (costs_.save_need[l] <= free_bytes) {
      TryForward(node, state, OperationKind::kForwardSave, l);
      if (costs_.unread[l] && state.form(l - 1) == kOutput) {
        TryForward(node, state, OperationKind::kForwardSaveDiscard, l);
      }
    }
    // The output of stage g alone is never dropped before its backward, which needs all of it.
    if (l == state.gradient() || costs_.once[l] || costs_.output_need[l] > free_bytes) return;
    TryForward(node, state, OperationKind::kForwardCheckpoint, l);
    if (l > 1 && costs_.MayDiscard(l - 1, state.form(l - 1) == kSaved)) {
      TryForward(node, state, OperationKind::kForwardDiscard, l);
    }
  }

  void TryForward(uint32_t node, State state, OperationKind kind, int l) {
    const double seconds = nodes_[node].seconds;
    state.Set(l, Saves(kind) ? kSaved : kOutput);
    if (Discards(kind)) state.Set(l - 1, kNone);
    Reach(state, seconds + costs_.forward[l], node, {kind, l});
    if (!Saves(kind) || l != state.gradient() || costs_.replay[l] >= costs_.forward[l]) return;
    state.SetReplayed();
    Reach(state, seconds + costs_.replay[l], node, {kind, l});
  }

  void TryBackward(uint32_t node, State state, int64_t free_bytes) {
    const int l = state.gradient();
    if (state.form(l) != kSaved || (!state.live(l - 1) && !costs_.unread[l])) return;
    if (costs_.gradient[l - 1] + costs_.backward_overhead[l] > free_bytes) return;
    State to(l - 1, state.bits() & ((uint64_t{1} << (2 * l)) - 1));
    if (to.form(l - 1) == kOutput) to.Set(l - 1, kNone);
    Reach(to, nodes_[node].seconds + costs_.backward[l], node, {OperationKind::kBackward, l});
  }

  Schedule ScheduleTo(uint32_t node) const {
    Schedule schedule;
    for (; node != 0; node = nodes_[node].from) {
      schedule.operations.push_back(nodes_[node].operation);
    }
    std::reverse(schedule.operations.begin(), schedule.operations.end());
    return schedule;
  }

  const Costs costs_;
  const ShortChainLimits limits_;
  const std::stop_token& stop_;
  const TimeAfterBackward after_;
  const double enough_seconds_;
  std::vector<Node> nodes_;                          // the first is the start
  absl::flat_hash_map<uint64_t, uint32_t> numbers_;  // of nodes, by state
  std::priority_queue<Waiting> queue_;
};

}  // namespace

std::optional<ShortChainResult> SearchShortChain(const Chain& chain, const ShortChainLimits& limits,
                                                 const std::stop_token& stop) {
  if (chain.length() > kMaxShortChainStages) return std::nullopt;
  if (ChainUnits(chain).HasGraph() || chain.has_save_options()) return std::nullopt;
  return Search(chain, limits, stop).Run();
}

}  // namespace stowage
