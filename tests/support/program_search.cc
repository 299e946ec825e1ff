#include "tests/support/program_search.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <deque>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

namespace stowage {
namespace {

enum class Form : uint8_t { kAbsent, kOutput, kSaved };
enum class Location : uint8_t { kDevice, kDeviceAndCopied, kHost };  // kDevice when absent

struct Value {
  Form form = Form::kAbsent;
  Location location = Location::kDevice;
  int way = 0;  // of kSaved: in which of the stage's ways, 0 for its own

  bool on_device() const { return form != Form::kAbsent && location != Location::kHost; }
  bool on_host() const { return form != Form::kAbsent && location != Location::kDevice; }
  bool droppable() const { return form != Form::kAbsent && location == Location::kDevice; }

  bool operator<(const Value& other) const {
    return std::tie(form, location, way) < std::tie(other.form, other.location, other.way);
  }
};

template <typename T>
using OfEachValue = std::array<T, kMaxProgramStages + 2>;  // 0..L+1

// The state: determines which operations are valid and what memory they need.
struct Situation {
  int gradient = 0;  // δ^gradient is held; L+1 before the backward of the loss
  OfEachValue<Value> values;
  bool replayed = false;  // the last forward was a replay: its backward is next to compute

  bool operator<(const Situation& other) const {
    return std::tie(gradient, values, replayed) <
           std::tie(other.gradient, other.values, other.replayed);
  }
};

// The clocks: determine when operations end, in seconds.
struct Clocks {
  double compute = 0;                // end of the last compute operation
  double released = 0;               // end of the last RELEASE
  double to_host = 0;                // end of the last copy to the host; of any with half_duplex
  double to_device = 0;              // end of the last copy to the device; 0 with half_duplex
  OfEachValue<double> prefetched{};  // of a value on the device: end of its last PREFETCH
  OfEachValue<double> offloaded{};   // of a value on the device and copied: end of its OFFLOAD

  bool operator==(const Clocks&) const = default;
};

bool NoLater(const OfEachValue<double>& a, const OfEachValue<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) { return x <= y; });
}

bool NoLater(const Clocks& a, const Clocks& b) {
  return a.compute <= b.compute && a.released <= b.released && a.to_host <= b.to_host &&
         a.to_device <= b.to_device && NoLater(a.prefetched, b.prefetched) &&
         NoLater(a.offloaded, b.offloaded);
}

// A prefix of a program.
struct Node {
  const Situation* situation = nullptr;
  Clocks clocks;
  const Node* from = nullptr;  // the prefix without its last operation
  Operation operation;         // the last operation
  double bound = 0;            // no program with this prefix is faster
  double left = 0;             // the part of the bound after the prefix
  bool dominated = false;
};

// Whether `a` is expanded after `b`. Of equal bounds the one closest to its end comes first, which
// only affects how soon the search ends.
struct Later {
  bool operator()(const Node* a, const Node* b) const {
    return std::tie(a->bound, a->left) > std::tie(b->bound, b->left);
  }
};

class ProgramSearch {
 public:
  ProgramSearch(const Chain& chain, const Platform& platform, const ProgramSearchOptions& options)
      : chain_(chain), platform_(platform), options_(options), loss_(chain.length() + 1) {
    assert(chain.length() <= kMaxProgramStages);
    backwards_from_.assign(loss_ + 1, chain.stage(1).backward_seconds);
    for (int l = 2; l <= loss_; ++l) {
      backwards_from_[l] = backwards_from_[l - 1] + chain.stage(l).backward_seconds;
    }
  }

  std::optional<ProgramResult> Run() {
    Situation start;
    start.gradient = loss_;
    start.values[0].form = Form::kOutput;
    Keep(start, Clocks{}, nullptr, {});
    while (!queue_.empty()) {
      const Node& node = *queue_.top();
      if (node.situation->gradient == 0) return Result(node);
      if (nodes_.size() >= options_.max_nodes) return GaveUp(node);
      queue_.pop();
      if (!node.dominated) Continue(node);
    }
    return std::nullopt;
  }

 private:
  void Continue(const Node& node) {
    for (int l = 0; l <= loss_; ++l) {
      for (const OperationKind kind :
           {OperationKind::kForwardSave, OperationKind::kForwardCheckpoint,
            OperationKind::kForwardDiscard, OperationKind::kBackward, OperationKind::kOffload,
            OperationKind::kRelease, OperationKind::kPrefetch,
            OperationKind::kForwardSaveDiscard}) {
        if (l == 0 && IsCompute(kind)) continue;
        const int ways = Saves(kind) ? static_cast<int>(chain_.stage(l).save_options.size()) : 0;
        for (int way = 0; way <= ways; ++way) {
          ContinueWith(node, {.kind = kind, .stage = l, .save_option = way});
        }
      }
    }
  }

  void ContinueWith(const Node& node, Operation operation) {
    if (!MayRun(*node.situation, operation)) return;
    const int l = operation.stage;
    Clocks clocks = ClocksAfter(*node.situation, node.clocks, operation);
    Situation next = SituationAfter(*node.situation, operation);
    Keep(next, clocks, &node, operation);
    const Stage& stage = chain_.stage(std::max(1, l));
    if (!Saves(operation.kind) || l != node.situation->gradient) return;
    if (!stage.replay_seconds.has_value()) return;
    next.replayed = true;
    clocks.compute += *stage.replay_seconds - stage.forward_seconds;
    Keep(next, clocks, &node, operation);
  }

  SaveOption Way(int l, int way) const {
    const Stage& stage = chain_.stage(l);
    if (way > 0) return stage.save_options.at(static_cast<size_t>(way) - 1);
    return {"", stage.saved_bytes, stage.backward_seconds, stage.backward_overhead_bytes,
            stage.save_overhead_bytes};
  }

  // Validity and memory limits.

  bool MayRun(const Situation& now, Operation operation) const {
    const int l = operation.stage;
    switch (operation.kind) {
      case OperationKind::kForwardSave:
      case OperationKind::kForwardCheckpoint:
      case OperationKind::kForwardDiscard:
      case OperationKind::kForwardSaveDiscard:
        return MayForward(now, operation);
      case OperationKind::kBackward:
        return MayBackward(now, l);
      case OperationKind::kOffload:
        return MayOffload(now, l);
      case OperationKind::kRelease:
        return now.values[l].location == Location::kDeviceAndCopied && Fits(now, 0);
      case OperationKind::kPrefetch:
        return now.values[l].location == Location::kHost && Fits(now, Bytes(now, l));
    }
    return false;
  }

  bool MayForward(const Situation& now, Operation operation) const {
    const OperationKind kind = operation.kind;
    const int l = operation.stage;
    const bool both = kind == OperationKind::kForwardSaveDiscard;
    const bool saves = both || kind == OperationKind::kForwardSave;
    if (!now.values[l - 1].on_device() || now.values[l].form != Form::kAbsent) return false;
    if (l > now.gradient || now.replayed) return false;
    // No need to track that a no_recompute stage runs once: its value stays until its BACKWARD, see
    // below.
    if (!saves && (l == loss_ || chain_.stage(l).no_recompute)) return false;
    if (kind == OperationKind::kForwardDiscard && !MayDiscard(now, l - 1)) return false;
    if (both && !chain_.stage(l).input_unread) return false;
    if (both && (now.values[l - 1].form != Form::kOutput || !now.values[l - 1].droppable())) {
      return false;
    }
    const int64_t added =
        saves ? Way(l, operation.save_option).saved_bytes : chain_.output_bytes(l);
    int64_t overhead = chain_.stage(l).forward_overhead_bytes;
    if (saves) overhead = Way(l, operation.save_option).save_overhead_bytes.value_or(overhead);
    return Fits(now, added + overhead);
  }

  bool MayDiscard(const Situation& now, int v) const {
    // Neither value could be recomputed for its BACKWARD.
    if (v == 0 || chain_.stage(v).no_recompute) return false;
    return now.values[v].droppable();
  }

  bool MayBackward(const Situation& now, int l) const {
    if (l != now.gradient) return false;
    if (now.values[l].form != Form::kSaved || !now.values[l].droppable()) return false;
    const bool gone = now.values[l - 1].form == Form::kAbsent && chain_.stage(l).input_unread;
    if (!gone && !now.values[l - 1].on_device()) return false;
    if (now.values[l - 1].form == Form::kOutput && !now.values[l - 1].droppable()) return false;
    return Fits(now,
                chain_.gradient_bytes(l - 1) + Way(l, now.values[l].way).backward_overhead_bytes);
  }

  bool MayOffload(const Situation& now, int l) const {
    // A value that cannot be prefetched must not be offloaded: nothing may remain on the host.
    if (platform_.offload_bytes_per_second == 0 || platform_.prefetch_rate() == 0) return false;
    if (l > 0 && chain_.stage(l).no_offload) return false;
    if (!now.values[l].droppable()) return false;  // absent, on the host or copied already
    int64_t host_bytes = Bytes(now, l);
    for (int v = 0; v <= loss_; ++v) {
      if (now.values[v].on_host()) host_bytes += Bytes(now, v);
    }
    return Fits(now, 0) &&
           (platform_.host_memory_bytes == 0 || host_bytes <= platform_.host_memory_bytes);
  }

  // Whether an operation fits that needs this much beyond what is on the device.
  bool Fits(const Situation& now, int64_t extra_bytes) const {
    int64_t bytes = chain_.gradient_bytes(now.gradient) + extra_bytes;
    for (int v = 0; v <= loss_; ++v) {
      if (now.values[v].on_device()) bytes += Bytes(now, v);
    }
    return bytes <= platform_.memory_bytes;
  }

  int64_t Bytes(const Situation& now, int v) const {
    return now.values[v].form == Form::kSaved ? Way(v, now.values[v].way).saved_bytes
                                              : chain_.output_bytes(v);
  }

  Situation SituationAfter(const Situation& now, Operation operation) const {
    const int l = operation.stage;
    Situation next = now;
    switch (operation.kind) {
      case OperationKind::kForwardSave:
        next.values[l] = {Form::kSaved, Location::kDevice, operation.save_option};
        break;
      case OperationKind::kForwardSaveDiscard:
        next.values[l] = {Form::kSaved, Location::kDevice, operation.save_option};
        next.values[l - 1] = Value{};
        break;
      case OperationKind::kForwardDiscard:
        next.values[l] = {Form::kOutput, Location::kDevice};
        next.values[l - 1] = Value{};
        break;
      case OperationKind::kForwardCheckpoint:
        next.values[l] = {Form::kOutput, Location::kDevice};
        break;
      case OperationKind::kBackward:
        next.values[l] = Value{};
        if (now.values[l - 1].form == Form::kOutput) next.values[l - 1] = Value{};
        next.gradient = l - 1;
        next.replayed = false;
        break;
      case OperationKind::kOffload:
        next.values[l].location = Location::kDeviceAndCopied;
        break;
      case OperationKind::kRelease:
        next.values[l].location = Location::kHost;
        break;
      case OperationKind::kPrefetch:
        next.values[l].location = Location::kDevice;
        break;
    }
    return next;
  }

  // The end time of the operation.

  Clocks ClocksAfter(const Situation& now, const Clocks& clocks, Operation operation) const {
    const int l = operation.stage;
    Clocks next = clocks;
    if (IsCompute(operation.kind)) {
      const bool backward = operation.kind == OperationKind::kBackward;
      double start = std::max({clocks.compute, clocks.released, clocks.prefetched[l - 1]});
      if (backward) start = std::max(start, clocks.prefetched[l]);
      const Stage& stage = chain_.stage(l);
      next.compute =
          start + (backward ? Way(l, now.values[l].way).backward_seconds : stage.forward_seconds);
    } else if (operation.kind == OperationKind::kOffload) {
      const double start = std::max({clocks.to_host, clocks.compute, clocks.prefetched[l]});
      next.to_host = start + OffloadSeconds(now, l);
      next.offloaded[l] = next.to_host;
    } else if (operation.kind == OperationKind::kRelease) {
      next.released = std::max({clocks.released, clocks.compute, clocks.offloaded[l]});
    } else {
      double& queue = platform_.half_duplex ? next.to_host : next.to_device;
      queue = std::max({queue, clocks.compute, clocks.released}) + PrefetchSeconds(now, l);
      next.prefetched[l] = queue;
    }
    return next;
  }

  double OffloadSeconds(const Situation& now, int v) const {
    return platform_.transfer_latency_seconds +
           static_cast<double>(Bytes(now, v)) / platform_.offload_bytes_per_second;
  }

  double PrefetchSeconds(const Situation& now, int v) const {
    return platform_.transfer_latency_seconds +
           static_cast<double>(Bytes(now, v)) / platform_.prefetch_rate();
  }

  // Clears the clocks that are not read any more.
  void Forget(const Situation& now, Clocks* clocks) const {
    for (int v = 0; v <= loss_; ++v) {
      if (!now.values[v].on_device()) clocks->prefetched[v] = 0;
      if (now.values[v].location != Location::kDeviceAndCopied) clocks->offloaded[v] = 0;
    }
  }

  // Raises the other clocks as far as this has no effect (lifting).
  void Lift(const Situation& now, Clocks* clocks) const {
    // Whatever waits for releases, copies included, also waits for the previous compute operation.
    clocks->released = std::max(clocks->released, clocks->compute);
    clocks->to_host = std::max(clocks->to_host, clocks->compute);
    // A copy to the device waits for the releases, too.
    const double released = clocks->released;
    if (!platform_.half_duplex) clocks->to_device = std::max(clocks->to_device, released);
    for (int v = 0; v <= loss_; ++v) {
      const Value& value = now.values[v];
      // A compute operation that reads the value waits for them, too. Its OFFLOAD waits for
      // `to_host`, which is not before `released`: a release ends with a copy to the host or a
      // compute operation.
      double& prefetched = clocks->prefetched[v];
      if (value.on_device()) prefetched = std::max(prefetched, released);
      // Read only by the RELEASE of the value, which waits for earlier releases.
      double& offloaded = clocks->offloaded[v];
      if (value.location == Location::kDeviceAndCopied) offloaded = std::max(offloaded, released);
    }
  }

  // What to keep of it.

  void Keep(const Situation& situation, Clocks clocks, const Node* from, Operation operation) {
    Forget(situation, &clocks);
    if (options_.lifting) Lift(situation, &clocks);
    const auto it = reached_.try_emplace(situation).first;
    std::vector<Node*>& rivals = it->second;
    for (const Node* rival : rivals) {
      if (Dominates(rival->clocks, clocks)) return;
    }
    std::erase_if(rivals, [&clocks, this](Node* rival) {
      rival->dominated = Dominates(clocks, rival->clocks);
      return rival->dominated;
    });
    const double left = SecondsLeft(situation);
    // Compute waits for every copy before the end.
    double bound = std::max({clocks.compute, clocks.released, clocks.to_host, clocks.to_device});
    if (options_.bound) {
      bound = std::max({bound, std::max(clocks.compute, clocks.released) + left,
                        EndOfReturns(situation, clocks)});
    }
    nodes_.push_back({&it->first, clocks, from, operation, bound, left, false});
    rivals.push_back(&nodes_.back());
    queue_.push(&nodes_.back());
  }

  bool Dominates(const Clocks& a, const Clocks& b) const {
    return options_.dominance ? NoLater(a, b) : a == b;
  }

  double SecondsLeft(const Situation& situation) const {
    double seconds = 0;
    for (int l = 1; l <= situation.gradient; ++l) {
      seconds += chain_.stage(l).backward_seconds;
      const Stage& stage = chain_.stage(l);
      if (situation.values[l].form == Form::kSaved) continue;
      seconds += stage.replay_seconds.value_or(stage.forward_seconds);
    }
    return seconds;
  }

  // The earliest time at which the values that are not ready on the device can be back, and the
  // backwards after them complete. The operation that drops value v needs it and is BACKWARD v or
  // comes before it; BACKWARD 1 drops the input.
  double EndOfReturns(const Situation& situation, const Clocks& clocks) const {
    const double queue_free = platform_.half_duplex ? clocks.to_host : clocks.to_device;
    double returned = std::max(queue_free, clocks.released);
    double end = 0;
    for (int v = situation.gradient; v >= 0; --v) {
      const Value& value = situation.values[v];
      double ready = 0;
      if (value.on_device()) ready = clocks.prefetched[v];
      if (value.on_host()) {
        const double seconds = PrefetchSeconds(situation, v);
        // In any order of prefetches, the last of the values from v on is not back before this.
        returned += seconds;
        ready = std::max(returned, clocks.offloaded[v] + seconds);
      }
      if (value.form != Form::kAbsent) end = std::max(end, ready + backwards_from_[v]);
    }
    return end;
  }

  ProgramResult Result(const Node& end) const {
    ProgramResult result;
    result.seconds = end.clocks.compute;
    result.nodes = nodes_.size();
    for (const Node* node = &end; node->from != nullptr; node = node->from) {
      result.schedule.operations.push_back(node->operation);
    }
    std::reverse(result.schedule.operations.begin(), result.schedule.operations.end());
    return result;
  }

  ProgramResult GaveUp(const Node& next) const {
    return {next.bound, Schedule{}, /*gave_up=*/true, nodes_.size()};
  }

  const Chain& chain_;
  const Platform& platform_;
  const ProgramSearchOptions options_;
  const int loss_;
  std::vector<double> backwards_from_;  // by value: seconds of BACKWARD v to 1; of 1 for v = 0
  std::map<Situation, std::vector<Node*>> reached_;  // nondominated nodes by state
  std::deque<Node> nodes_;                           // never erased: others point to them
  std::priority_queue<const Node*, std::vector<const Node*>, Later> queue_;
};

}  // namespace

std::optional<ProgramResult> FastestProgram(const Chain& chain, const Platform& platform,
                                            const ProgramSearchOptions& options) {
  return ProgramSearch(chain, platform, options).Run();
}

}  // namespace stowage
