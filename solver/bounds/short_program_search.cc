#include "solver/bounds/short_program_search.h"

#include <algorithm>
#include <array>
#include <deque>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "solver/base/checked_math.h"
#include "solver/bounds/short_program_state.h"
#include "solver/bounds/stage_costs.h"
#include "solver/model/chain_units.h"
#include "solver/model/prediction.h"

namespace stowage {
namespace {

using Costs = StageCosts<kMaxShortProgramStages>;
constexpr int kMaxValues = ProgramState::kMaxValues;

using State = ProgramState;
using Clocks = ProgramClocks;
using enum ProgramState::Form;
using enum ProgramState::Place;
using Form = ProgramState::Form;

class Search {
 public:
  Search(const Chain& chain, const Platform& platform, const ShortChainLimits& limits,
         const std::stop_token& stop)
      : costs_(chain),
        platform_(platform),
        limits_(limits),
        stop_(stop),
        enough_seconds_(limits.below_seconds * (1 - kSummationError)) {
    stays_[0] = false;
    for (int l = 1; l <= costs_.loss; ++l) {
      stays_[l] = chain.stage(l).no_offload;
      backwards_[l] = backwards_[l - 1] + costs_.backward[l];
    }
    backwards_[0] = costs_.backward[1];  // what drops the input is B_1, or comes before it
    for (int k = 2; k <= costs_.loss; ++k) after_[k] = TimeAfterBackward(k);
  }

  std::optional<ShortChainResult> Run() {
    State start(costs_.loss);
    start.Set(0, kOutput, kDevice);
    Keep(start, Clocks{}, nullptr, {});
    for (int64_t step = 1; !queue_.empty(); ++step) {
      constexpr int64_t kStepsBetweenLooks = 256;
      if (nodes_.size() > limits_.max_states) return std::nullopt;
      if (step % kStepsBetweenLooks == 0 && stop_.stop_requested()) return std::nullopt;
      const Node& node = *queue_.top();
      queue_.pop();
      if (node.dominated) continue;
      if (node.state.gradient() == 0) {
        return ShortChainResult{ScheduleTo(node), node.clocks.compute};
      }
      Continue(node);
    }
    return ShortChainResult{std::nullopt, limits_.below_seconds};
  }

 private:
  struct Node {
    State state;
    Clocks clocks;
    const Node* from = nullptr;  // without its last operation
    Operation operation;         // the last one
    double bound = 0;            // no schedule that begins so is faster
    bool dominated = false;
  };
  // The least bound comes first, and of equal ones the node that has come farthest.
  struct Later {
    bool operator()(const Node* a, const Node* b) const {
      return a->bound != b->bound ? a->bound > b->bound : a->clocks.compute < b->clocks.compute;
    }
  };

  int64_t Bytes(State state, int v) const {
    return state.form(v) == kSaved ? costs_.saved[v] : costs_.output[v];
  }
  double OffloadSeconds(State state, int v) const {
    return platform_.transfer_latency_seconds +
           static_cast<double>(Bytes(state, v)) / platform_.offload_bytes_per_second;
  }
  double PrefetchSeconds(State state, int v) const {
    return platform_.transfer_latency_seconds +
           static_cast<double>(Bytes(state, v)) / platform_.prefetch_rate();
  }

  // The bound.

  // Backwards of k and below, and what must run before them, is added to `seconds`, for ever lower
  // k; `visit` gets each. False: an input cannot be had again.
  template <typename Visitor>
  bool VisitBackwards(State state, double seconds, Visitor visit) const {
    const int g = state.gradient();
    if (state.form(g) != kSaved) seconds += costs_.replay[g];
    int read = g;  // the forwards that B_g needs run stages from `read` to g-1
    if (state.form(g) != kSaved || !costs_.unread[g]) {
      for (; !state.live(read - 1); --read) {
        if (read == 1) return false;
        seconds += costs_.forward[read - 1];
      }
    }
    for (int k = g; k >= 1; --k) {
      seconds += costs_.backward[k];
      if (k < read && state.form(k) != kSaved) seconds += costs_.replay[k];
      visit(k, seconds);
    }
    return true;
  }

  // R(k) of the header.
  double TimeAfterBackward(int k) const {
    State contents(k - 1);
    const int64_t device_bytes = limits_.memory_bytes - costs_.saved[k] - costs_.gradient[k] -
                                 costs_.gradient[k - 1] - costs_.backward_overhead[k];
    double least = kInfiniteSeconds;
    const int64_t host_bytes =
        platform_.host_memory_bytes > 0 ? platform_.host_memory_bytes : INT64_MAX;
    TryContents(k, k - 1, contents, device_bytes, host_bytes, &least);
    return least;
  }

  // Lowers `least` to the least time after B_k over all forms and places of values v and below.
  void TryContents(int k, int v, State contents, int64_t device_bytes, int64_t host_bytes,
                   double* least) const {
    if (device_bytes < 0 || host_bytes < 0) return;
    if (v < 0) {
      *least = std::min(*least, TimeFrom(contents));
      return;
    }
    const bool read = v == k - 1;  // by B_k, after which a mere output is gone
    if (v == 0 ? costs_.unread[1] : !costs_.once[v]) {
      const int64_t input = read && !costs_.unread[k] ? costs_.output[v] : 0;
      TryContents(k, v - 1, contents, device_bytes - input, host_bytes, least);
    }
    for (const Form form : {kOutput, kSaved}) {
      const bool possible = form == kSaved ? v > 0 : v == 0 || (!costs_.once[v] && !read);
      if (!possible) continue;
      contents.Set(v, form, kDevice);
      const int64_t bytes = Bytes(contents, v);
      TryContents(k, v - 1, contents, device_bytes - bytes, host_bytes, least);
      if (read || stays_[v]) continue;
      contents.Set(v, form, kHost);
      TryContents(k, v - 1, contents, device_bytes, host_bytes - bytes, least);
    }
  }

  // With everything on the host beginning to return at 0, one after another. Reads R of lower
  // stages.
  double TimeFrom(State state) const {
    double end = 0;
    const bool possible = VisitBackwards(state, 0, [this, &end](int k, double seconds) {
      end = std::max(end, seconds + after_[k]);
    });
    if (!possible) return kInfiniteSeconds;
    double returned = 0;
    for (int v = state.gradient(); v >= 0; --v) {
      if (state.place(v) != kHost) continue;
      returned += PrefetchSeconds(state, v);
      end = std::max(end, returned + backwards_[v]);
    }
    return end;
  }

  // The earliest time at which the values that are not ready on the device can be back, and the
  // backwards after them end. The operation that drops value v needs it and is BACKWARD v, or comes
  // before it.
  double EndOfReturns(State state, const Clocks& clocks) const {
    const double queue_free = platform_.half_duplex ? clocks.to_host : clocks.to_device;
    double returned = std::max(queue_free, clocks.released);
    double end = 0;
    for (int v = state.gradient(); v >= 0; --v) {
      if (!state.live(v)) continue;
      double ready = state.on_device(v) ? clocks.prefetched[v] : 0;
      if (state.on_host(v)) {
        const double seconds = PrefetchSeconds(state, v);
        returned += seconds;
        ready = std::max(returned, clocks.offloaded[v] + seconds);
      }
      end = std::max(end, ready + backwards_[v]);
    }
    return end;
  }

  double Bound(State state, const Clocks& clocks) const {
    double bound = std::max({clocks.compute, clocks.released, clocks.to_host, clocks.to_device});
    if (state.gradient() == 0) return bound;
    const bool possible = VisitBackwards(
        state, std::max(clocks.compute, clocks.released),
        [this, &bound](int k, double seconds) { bound = std::max(bound, seconds + after_[k]); });
    if (!possible) return kInfiniteSeconds;
    return std::max(bound, EndOfReturns(state, clocks));
  }

  // The operations that may follow. Every one needs that what is on the device fits by itself.

  void Continue(const Node& node) {
    const State state = node.state;
    const int g = state.gradient();
    int64_t free_bytes = limits_.memory_bytes - costs_.gradient[g];
    int64_t host_bytes = 0;
    for (int v = 0; v <= g; ++v) {
      if (state.on_device(v)) free_bytes -= Bytes(state, v);
      if (state.on_host(v)) host_bytes += Bytes(state, v);
    }
    TryBackward(node, free_bytes);
    for (int v = 0; v <= g; ++v) {
      if (v > 0 && !state.replayed() && !state.live(v) && state.on_device(v - 1)) {
        TryForwards(node, v, free_bytes);
      }
      if (state.droppable(v)) TryOffload(node, v, host_bytes);
      if (state.live(v) && state.place(v) == kCopied) Release(node, v);
      if (state.live(v) && state.place(v) == kHost && Bytes(state, v) <= free_bytes) {
        Prefetch(node, v);
      }
    }
  }

  void TryForwards(const Node& node, int l, int64_t free_bytes) {
    const State state = node.state;
    const bool drops = state.droppable(l - 1);
    if (costs_.save_need[l] <= free_bytes) {
      Forward(node, OperationKind::kForwardSave, l);
      if (costs_.unread[l] && drops && state.form(l - 1) == kOutput) {
        Forward(node, OperationKind::kForwardSaveDiscard, l);
      }
    }
    // The output of stage g alone is never dropped before its backward, which needs all of it.
    if (l == state.gradient() || costs_.once[l] || costs_.output_need[l] > free_bytes) return;
    Forward(node, OperationKind::kForwardCheckpoint, l);
    if (l > 1 && drops && costs_.MayDiscard(l - 1, state.form(l - 1) == kSaved)) {
      Forward(node, OperationKind::kForwardDiscard, l);
    }
  }

  void Forward(const Node& node, OperationKind kind, int l) {
    State state = node.state;
    state.Set(l, Saves(kind) ? kSaved : kOutput, kDevice);
    if (Discards(kind)) state.Drop(l - 1);
    Clocks clocks = node.clocks;
    const double start = std::max({clocks.compute, clocks.released, clocks.prefetched[l - 1]});
    clocks.compute = start + costs_.forward[l];
    Keep(state, clocks, &node, {kind, l});
    const bool last = Saves(kind) && l == state.gradient();
    if (!last || costs_.replay[l] >= costs_.forward[l]) return;
    state.SetReplayed();
    clocks.compute = start + costs_.replay[l];
    Keep(state, clocks, &node, {kind, l});
  }

  void TryBackward(const Node& node, int64_t free_bytes) {
    const int l = node.state.gradient();
    State state = node.state;
    if (state.form(l) != kSaved || !state.droppable(l)) return;
    const bool gone = costs_.unread[l] && !state.live(l - 1);
    if (!gone && !state.on_device(l - 1)) return;
    const bool output = state.form(l - 1) == kOutput;
    if (output && !state.droppable(l - 1)) return;
    if (costs_.gradient[l - 1] + costs_.backward_overhead[l] > free_bytes) return;
    Clocks clocks = node.clocks;
    clocks.compute = std::max({clocks.compute, clocks.released, clocks.prefetched[l - 1],
                               clocks.prefetched[l]}) +
                     costs_.backward[l];
    state.Drop(l);
    if (output) state.Drop(l - 1);
    state.SetGradient(l - 1);
    Keep(state, clocks, &node, {OperationKind::kBackward, l});
  }

  void TryOffload(const Node& node, int v, int64_t host_bytes) {
    State state = node.state;
    if (stays_[v]) return;
    if (platform_.host_memory_bytes > 0 &&
        host_bytes + Bytes(state, v) > platform_.host_memory_bytes) {
      return;
    }
    Clocks clocks = node.clocks;
    clocks.to_host =
        std::max({clocks.to_host, clocks.compute, clocks.prefetched[v]}) + OffloadSeconds(state, v);
    clocks.offloaded[v] = clocks.to_host;
    state.Set(v, state.form(v), kCopied);
    Keep(state, clocks, &node, {OperationKind::kOffload, v});
  }

  void Release(const Node& node, int v) {
    State state = node.state;
    Clocks clocks = node.clocks;
    clocks.released = std::max({clocks.released, clocks.compute, clocks.offloaded[v]});
    state.Set(v, state.form(v), kHost);
    Keep(state, clocks, &node, {OperationKind::kRelease, v});
  }

  void Prefetch(const Node& node, int v) {
    State state = node.state;
    Clocks clocks = node.clocks;
    double& queue = platform_.half_duplex ? clocks.to_host : clocks.to_device;
    queue = std::max({queue, clocks.compute, clocks.released}) + PrefetchSeconds(state, v);
    clocks.prefetched[v] = queue;
    state.Set(v, state.form(v), kDevice);
    Keep(state, clocks, &node, {OperationKind::kPrefetch, v});
  }

  // What to keep.

  // Clears the clocks that are not read any more, and raises others as far as this has no effect.
  void Lift(State state, Clocks* clocks) const {
    // Whatever waits for releases, copies included, also waits for the previous compute operation,
    // and a copy to the device for the releases.
    clocks->released = std::max(clocks->released, clocks->compute);
    const double released = clocks->released;
    clocks->to_host = std::max(clocks->to_host, clocks->compute);
    if (!platform_.half_duplex) clocks->to_device = std::max(clocks->to_device, released);
    for (int v = 0; v <= costs_.loss; ++v) {
      // An operation that reads the value waits for releases, too. Its OFFLOAD waits for `to_host`,
      // which is not before `released`: a release ends with a copy to the host or with compute.
      const bool ready = state.on_device(v);
      clocks->prefetched[v] = ready ? std::max(clocks->prefetched[v], released) : 0;
      // Read by the RELEASE of the value only, which waits for earlier releases.
      const bool copied = state.live(v) && state.place(v) == kCopied;
      clocks->offloaded[v] = copied ? std::max(clocks->offloaded[v], released) : 0;
    }
  }

  void Keep(State state, Clocks clocks, const Node* from, Operation operation) {
    Lift(state, &clocks);
    const double bound = Bound(state, clocks);
    if (!(bound < enough_seconds_)) return;
    std::vector<Node*>& rivals = reached_[state.bits()];
    for (const Node* rival : rivals) {
      if (rival->clocks.NoLaterThan(clocks)) return;
    }
    std::erase_if(rivals, [&clocks](Node* rival) {
      rival->dominated = clocks.NoLaterThan(rival->clocks);
      return rival->dominated;
    });
    nodes_.push_back({state, clocks, from, operation, bound});
    rivals.push_back(&nodes_.back());
    queue_.push(&nodes_.back());
  }

  static Schedule ScheduleTo(const Node& end) {
    Schedule schedule;
    for (const Node* node = &end; node->from != nullptr; node = node->from) {
      schedule.operations.push_back(node->operation);
    }
    std::reverse(schedule.operations.begin(), schedule.operations.end());
    return schedule;
  }

  const Costs costs_;
  const Platform& platform_;
  const ShortChainLimits limits_;
  const std::stop_token& stop_;
  const double enough_seconds_;
  std::array<bool, kMaxValues> stays_{};                       // no_offload, by value
  std::array<double, kMaxValues> backwards_{};                 // seconds of B_v and below
  std::array<double, kMaxValues> after_{};                     // R(k)
  absl::flat_hash_map<uint32_t, std::vector<Node*>> reached_;  // nondominated nodes, by state
  std::deque<Node> nodes_;                                     // others point to them
  std::priority_queue<const Node*, std::vector<const Node*>, Later> queue_;
};

}  // namespace

bool IsSearched(const Chain& chain, const Platform& platform) {
  const int most = platform.has_link() ? kMaxShortProgramStages : kMaxShortChainStages;
  return chain.length() <= most && !ChainUnits(chain).HasGraph() && !chain.has_save_options();
}

std::optional<ShortChainResult> SearchShortProgram(const Chain& chain, const Platform& platform,
                                                   const ShortChainLimits& limits,
                                                   const std::stop_token& stop) {
  if (!IsSearched(chain, platform)) return std::nullopt;
  if (!platform.has_link()) return SearchShortChain(chain, limits, stop);
  return Search(chain, platform, limits, stop).Run();
}

}  // namespace stowage
