#include "tests/support/relaxed_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace stowage {
namespace {

// The compute queue during one phase, and in parallel the link, which transfers a queue of bytes
// that are still on the device. Forward phase: bytes to offload, in order of time. Backward phase:
// bytes to prefetch with time reversed, so that "as late as possible" becomes "as soon as
// possible".
class Phase {
 public:
  Phase(int64_t memory_bytes, double bytes_per_second)
      : memory_(static_cast<double>(memory_bytes)), rate_(bytes_per_second) {}

  // Waits until `needed_bytes` fit beside the queue; false if they never will.
  bool WaitFor(int64_t needed_bytes) {
    const auto needed = static_cast<double>(needed_bytes);
    if (needed > memory_) return false;
    const double excess = needed + queued_ - memory_;
    if (excess > 0) Pass(excess / rate_);
    return true;
  }

  void Enqueue(int64_t bytes) { queued_ += static_cast<double>(bytes); }

  void Pass(double seconds) {
    seconds_ += seconds;
    queued_ = std::max(0.0, queued_ - seconds * rate_);
  }

  // The duration of the phase, including the link's last byte.
  double SecondsUntilEmpty() const { return seconds_ + (queued_ > 0 ? queued_ / rate_ : 0); }

 private:
  double memory_;
  double rate_;
  double seconds_ = 0;
  double queued_ = 0;
};

// Device memory during a program without transfers.
class Device {
 public:
  explicit Device(const Chain& chain) : chain_(chain), loss_(chain.length() + 1) {
    bytes_.assign(loss_ + 1, 0);
    bytes_[0] = chain.input_bytes;
    is_saved_.assign(loss_ + 1, false);
    gradient_ = loss_;
  }

  int64_t bytes(int value) const { return bytes_[value]; }

  // Memory of `operation` by solver/README.md: what is there before it, what it adds, its overhead.
  int64_t NeededBy(const Operation& operation) const {
    const Stage& stage = chain_.stage(operation.stage);
    int64_t needed = chain_.gradient_bytes(gradient_);
    for (const int64_t bytes : bytes_) needed += bytes;
    if (operation.kind == OperationKind::kBackward) {
      return needed + chain_.gradient_bytes(operation.stage - 1) + stage.backward_overhead_bytes;
    }
    if (operation.kind != OperationKind::kForwardSave) {
      return needed + Added(operation) + stage.forward_overhead_bytes;
    }
    return needed + Added(operation) +
           stage.save_overhead_bytes.value_or(stage.forward_overhead_bytes);
  }

  void Execute(const Operation& operation) {
    const int l = operation.stage;
    if (operation.kind == OperationKind::kBackward) {
      bytes_[l] = 0;
      if (!is_saved_[l - 1]) bytes_[l - 1] = 0;
      gradient_ = l - 1;
      return;
    }
    bytes_[l] = Added(operation);
    is_saved_[l] = operation.kind == OperationKind::kForwardSave;
    if (operation.kind == OperationKind::kForwardDiscard) bytes_[l - 1] = 0;
  }

 private:
  int64_t Added(const Operation& operation) const {
    return operation.kind == OperationKind::kForwardSave ? chain_.saved_bytes(operation.stage)
                                                         : chain_.output_bytes(operation.stage);
  }

  const Chain& chain_;
  const int loss_;
  std::vector<int64_t> bytes_;  // by value; 0 when absent
  std::vector<bool> is_saved_;  // by value: ā rather than a
  int gradient_;                // δ of this stage is held
};

bool Reads(const Operation& operation, int value) {
  return operation.stage - 1 == value ||
         (operation.kind == OperationKind::kBackward && operation.stage == value);
}

// A value that is on the host around the loss.
struct Trip {
  int64_t bytes = 0;
  size_t leaves = 0;   // the last operation of the forward phase that reads it
  size_t returns = 0;  // the first of the backward phase that does
};

// One program, prepared for timing with any set of offloaded values.
class Timing {
 public:
  Timing(const Chain& chain, const Schedule& computation) : chain_(chain) {
    const std::vector<Operation>& operations = computation.operations;
    Device device(chain);
    trips_.resize(chain.length() + 1);
    for (size_t i = 0; i < operations.size(); ++i) {
      const Stage& stage = chain.stage(operations[i].stage);
      const bool forward = IsForward(operations[i].kind);
      seconds_.push_back(forward ? stage.forward_seconds : stage.backward_seconds);
      needed_.push_back(device.NeededBy(operations[i]));
      if (forward && operations[i].stage == chain.length() + 1) {
        loss_ = i;
        for (int value = 0; value <= chain.length(); ++value) {
          trips_[value].bytes = device.bytes(value);
        }
      }
      device.Execute(operations[i]);
    }
    for (int value = 0; value <= chain.length(); ++value) {
      for (size_t i = 0; i <= loss_; ++i) {
        if (Reads(operations[i], value)) trips_[value].leaves = i;
      }
      for (size_t i = operations.size() - 1; i > loss_; --i) {
        if (Reads(operations[i], value)) trips_[value].returns = i;
      }
    }
  }

  std::optional<double> Seconds(const Platform& platform, const std::vector<int>& offloaded) const {
    for (const int value : offloaded) {
      if (value > 0 && chain_.stage(value).no_offload) return std::nullopt;
      if (platform.offload_bytes_per_second == 0 || platform.prefetch_rate() == 0) {
        return std::nullopt;
      }
    }
    // The need of an operation without the values that are queued on the link or not yet requested
    // from it; the phases count those.
    std::vector<int64_t> needed = needed_;
    for (const int value : offloaded) {
      for (size_t i = trips_[value].leaves + 1; i < trips_[value].returns; ++i) {
        needed[i] -= trips_[value].bytes;
      }
    }
    Phase forward(platform.memory_bytes, platform.offload_bytes_per_second);
    for (size_t i = 0; i <= loss_; ++i) {
      if (!forward.WaitFor(needed[i])) return std::nullopt;
      for (const int value : offloaded) {
        if (trips_[value].leaves == i) forward.Enqueue(trips_[value].bytes);
      }
      forward.Pass(seconds_[i]);
    }
    Phase backward(platform.memory_bytes, platform.prefetch_rate());
    for (size_t i = needed.size() - 1; i > loss_; --i) {
      if (!backward.WaitFor(needed[i])) return std::nullopt;
      backward.Pass(seconds_[i]);
      for (const int value : offloaded) {
        if (trips_[value].returns == i) backward.Enqueue(trips_[value].bytes);
      }
    }
    return forward.SecondsUntilEmpty() + backward.SecondsUntilEmpty();
  }

  // The values that are on the device when the loss runs.
  std::vector<int> Candidates() const {
    std::vector<int> values;
    for (int value = 0; value <= chain_.length(); ++value) {
      if (trips_[value].bytes > 0) values.push_back(value);
    }
    return values;
  }

 private:
  const Chain& chain_;
  std::vector<double> seconds_;  // by operation
  std::vector<int64_t> needed_;  // by operation, with nothing offloaded
  size_t loss_ = 0;              // the operation that runs the loss forward
  std::vector<Trip> trips_;      // by value
};

// Enumerates every nested persistent program, one operation at a time.
class RelaxedSearch {
 public:
  RelaxedSearch(const Chain& chain, const Platform& platform)
      : chain_(chain), platform_(platform), loss_(chain.length() + 1) {}

  std::optional<RelaxedResult> Run() {
    State start;
    start.is_live.assign(loss_ + 1, false);
    start.is_live[0] = true;
    start.is_saved.assign(loss_ + 1, false);
    start.was_read.assign(loss_ + 1, false);
    start.has_run.assign(loss_ + 1, false);
    start.gradient = loss_;
    Extend(start);
    return best_;
  }

 private:
  struct State {
    std::vector<bool> is_live;   // by value
    std::vector<bool> is_saved;  // by value: ā rather than a
    std::vector<bool> was_read;  // by value: a forward has read it without dropping it
    std::vector<bool> has_run;   // by stage
    int gradient = 0;            // δ^gradient is held; L+1 before the backward of the loss
    double seconds = 0;          // of the operations so far
  };

  void Extend(const State& state) {
    // No program is faster than the sum of its operations.
    if (best_.has_value() && state.seconds >= best_->seconds) return;
    if (state.gradient == 0) {
      TryEverySubset();
      return;
    }
    int top = loss_;  // the last live value: only the next stage may run forward
    while (!state.is_live[top]) --top;
    if (top == state.gradient) {
      if (state.is_saved[top] && state.is_live[top - 1]) Backward(state);
      return;
    }
    Forward(state, OperationKind::kForwardSave, top + 1);
    Forward(state, OperationKind::kForwardCheckpoint, top + 1);
    Forward(state, OperationKind::kForwardDiscard, top + 1);
  }

  void Forward(State state, OperationKind kind, int l) {
    const bool saves = kind == OperationKind::kForwardSave;
    const bool discards = kind == OperationKind::kForwardDiscard;
    if (!saves && (l == loss_ || chain_.stage(l).no_recompute)) return;
    if (chain_.stage(l).no_recompute && state.has_run[l]) return;
    if (discards && (l == 1 || state.was_read[l - 1])) return;
    state.is_live[l] = true;
    state.is_saved[l] = saves;
    state.was_read[l] = false;
    state.was_read[l - 1] = !discards;
    state.is_live[l - 1] = !discards;
    state.has_run[l] = true;
    state.seconds += chain_.stage(l).forward_seconds;
    Continue(state, {kind, l});
  }

  void Backward(State state) {
    const int l = state.gradient;
    state.is_live[l] = false;
    if (!state.is_saved[l - 1]) state.is_live[l - 1] = false;
    state.gradient = l - 1;
    state.seconds += chain_.stage(l).backward_seconds;
    Continue(state, {OperationKind::kBackward, l});
  }

  void Continue(const State& state, const Operation& operation) {
    computation_.operations.push_back(operation);
    Extend(state);
    computation_.operations.pop_back();
  }

  void TryEverySubset() {
    const Timing timing(chain_, computation_);
    const std::vector<int> candidates = timing.Candidates();
    for (size_t subset = 0; subset < size_t{1} << candidates.size(); ++subset) {
      std::vector<int> offloaded;
      for (size_t i = 0; i < candidates.size(); ++i) {
        if ((subset >> i & 1) != 0) offloaded.push_back(candidates[i]);
      }
      const std::optional<double> seconds = timing.Seconds(platform_, offloaded);
      if (!seconds.has_value() || (best_.has_value() && *seconds >= best_->seconds)) continue;
      best_ = RelaxedResult{*seconds, {computation_, std::move(offloaded)}};
    }
  }

  const Chain& chain_;
  const Platform& platform_;
  const int loss_;
  Schedule computation_;  // the operations so far
  std::optional<RelaxedResult> best_;
};

}  // namespace

std::optional<double> RelaxedSeconds(const Chain& chain, const Platform& platform,
                                     const RelaxedProgram& program) {
  return Timing(chain, program.computation).Seconds(platform, program.offloaded);
}

std::optional<RelaxedResult> FastestRelaxed(const Chain& chain, const Platform& platform) {
  return RelaxedSearch(chain, platform).Run();
}

}  // namespace stowage
