#include "tests/support/brute_force.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace stowage {
namespace {

// The state of a partial schedule, which determines the possible continuations. The search is
// Dijkstra's algorithm on these states: an edge is one operation, its length the duration.
struct State {
  // By value 0..L+1: ' ' absent, 'a' output, 'A' saved.
  std::vector<char> live;
  // By value 'A': in which of the stage's ways, 0 for its own.
  std::vector<int> way;
  // By live value: whether a forward has read it without dropping it.
  std::vector<bool> was_read;
  // By stage: whether it has run forward (tracked for no_recompute stages only).
  std::vector<bool> has_run;
  int gradient = 0;  // δ^gradient is held; L+1 before the backward of the loss
  // The last forward ran as a replay: nothing but its backward may follow.
  bool replayed = false;

  bool operator<(const State& other) const {
    return std::tie(live, way, was_read, has_run, gradient, replayed) <
           std::tie(other.live, other.way, other.was_read, other.has_run, other.gradient,
                    other.replayed);
  }
};

struct Step {
  State to;
  Operation operation;
  double seconds = 0;
};

class BruteForce {
 public:
  BruteForce(const Chain& chain, int64_t memory_bytes, ScheduleClass schedules)
      : chain_(chain),
        memory_bytes_(memory_bytes),
        schedules_(schedules),
        loss_(chain.length() + 1) {}

  std::optional<BruteForceResult> Run() {
    State start;
    start.live.assign(loss_ + 1, ' ');
    start.live[0] = 'a';
    start.way.assign(loss_ + 1, 0);
    start.was_read.assign(loss_ + 1, false);
    start.has_run.assign(loss_ + 1, false);
    start.gradient = loss_;
    Reach(start, 0, nullptr, {});
    while (!queue_.empty()) {
      const auto [seconds, state] = queue_.top();
      queue_.pop();
      if (seconds > reached_.at(*state).seconds) continue;
      if (state->gradient == 0) return Result(*state);
      for (const Step& step : Steps(*state)) {
        Reach(step.to, seconds + step.seconds, state, step.operation);
      }
    }
    return std::nullopt;
  }

 private:
  struct Reached {
    double seconds = 0;
    const State* from = nullptr;
    Operation operation;
  };
  struct Later {
    bool operator()(const std::pair<double, const State*>& a,
                    const std::pair<double, const State*>& b) const {
      return a.first > b.first;
    }
  };

  void Reach(const State& state, double seconds, const State* from, Operation operation) {
    const auto [it, inserted] = reached_.try_emplace(state, Reached{seconds, from, operation});
    if (!inserted && it->second.seconds <= seconds) return;
    it->second = Reached{seconds, from, operation};
    queue_.emplace(seconds, &it->first);
  }

  BruteForceResult Result(const State& end) const {
    BruteForceResult result;
    result.seconds = reached_.at(end).seconds;
    for (const State* state = &end; reached_.at(*state).from != nullptr;
         state = reached_.at(*state).from) {
      result.schedule.operations.push_back(reached_.at(*state).operation);
    }
    std::reverse(result.schedule.operations.begin(), result.schedule.operations.end());
    return result;
  }

  int64_t OnDevice(const State& state) const {
    int64_t bytes = chain_.gradient_bytes(state.gradient);
    for (int l = 0; l <= loss_; ++l) {
      if (state.live[l] == 'a') bytes += chain_.output_bytes(l);
      if (state.live[l] == 'A') bytes += Way(l, state.way[l]).saved_bytes;
    }
    return bytes;
  }

  SaveOption Way(int l, int way) const {
    const Stage& stage = chain_.stage(l);
    if (way > 0) return stage.save_options.at(static_cast<size_t>(way) - 1);
    return {"", stage.saved_bytes, stage.backward_seconds, stage.backward_overhead_bytes,
            stage.save_overhead_bytes};
  }

  std::vector<Step> Steps(const State& state) const {
    std::vector<Step> steps;
    for (int l = 1; l <= state.gradient && !state.replayed; ++l) {
      AddForward(state, OperationKind::kForwardCheckpoint, l, 0, &steps);
      AddForward(state, OperationKind::kForwardDiscard, l, 0, &steps);
      for (int way = 0; way <= static_cast<int>(chain_.stage(l).save_options.size()); ++way) {
        AddForward(state, OperationKind::kForwardSave, l, way, &steps);
        AddForward(state, OperationKind::kForwardSaveDiscard, l, way, &steps);
      }
    }
    AddBackward(state, &steps);
    return steps;
  }

  void AddForward(const State& state, OperationKind kind, int l, int way,
                  std::vector<Step>* steps) const {
    const bool both = kind == OperationKind::kForwardSaveDiscard;
    const bool saves = both || kind == OperationKind::kForwardSave;
    const bool discards = both || kind == OperationKind::kForwardDiscard;
    if (state.live[l - 1] == ' ' || state.live[l] != ' ') return;
    if (!saves && (l == loss_ || chain_.stage(l).no_recompute)) return;
    if (chain_.stage(l).no_recompute && state.has_run[l]) return;
    if (both && (!chain_.stage(l).input_unread || state.live[l - 1] != 'a')) return;
    if (discards && !both && l == 1) return;
    if (discards && !both && schedules_ != ScheduleClass::kAny && state.was_read[l - 1]) return;
    if (discards && schedules_ != ScheduleClass::kAny && SavedWithoutInput(state, l - 1)) return;
    if (Nested() && AnythingLiveFrom(state, l)) return;
    if (schedules_ == ScheduleClass::kOutputsOnly && saves && !chain_.stage(l).no_recompute &&
        l != state.gradient) {
      return;
    }
    const int64_t added = saves ? Way(l, way).saved_bytes : chain_.output_bytes(l);
    int64_t overhead = chain_.stage(l).forward_overhead_bytes;
    if (saves) overhead = Way(l, way).save_overhead_bytes.value_or(overhead);
    if (OnDevice(state) + added + overhead > memory_bytes_) return;
    State to = state;
    to.live[l] = saves ? 'A' : 'a';
    to.way[l] = way;
    to.was_read[l] = false;
    to.was_read[l - 1] = !discards;
    if (discards) {
      to.live[l - 1] = ' ';
      to.way[l - 1] = 0;
    }
    if (chain_.stage(l).no_recompute) to.has_run[l] = true;
    const Operation operation{.kind = kind, .stage = l, .save_option = way};
    steps->push_back({to, operation, chain_.stage(l).forward_seconds});
    if (!saves || l != state.gradient || !chain_.stage(l).replay_seconds.has_value()) return;
    to.replayed = true;
    steps->push_back({std::move(to), operation, *chain_.stage(l).replay_seconds});
  }

  void AddBackward(const State& state, std::vector<Step>* steps) const {
    const int l = state.gradient;
    if (state.live[l] != 'A') return;
    if (state.live[l - 1] == ' ' && !chain_.stage(l).input_unread) return;
    const SaveOption way = Way(l, state.way[l]);
    const int64_t added = chain_.gradient_bytes(l - 1) + way.backward_overhead_bytes;
    if (OnDevice(state) + added > memory_bytes_) return;
    State to = state;
    to.live[l] = ' ';
    to.way[l] = 0;
    to.was_read[l] = false;
    to.replayed = false;
    if (to.live[l - 1] == 'a') {
      to.live[l - 1] = ' ';
      to.was_read[l - 1] = false;
    }
    to.gradient = l - 1;
    steps->push_back({std::move(to), {OperationKind::kBackward, l}, way.backward_seconds});
  }

  // By a FORWARD_SAVE_DISCARD: of other saved values the input stays.
  static bool SavedWithoutInput(const State& state, int l) {
    return l > 0 && state.live[l] == 'A' && state.live[l - 1] == ' ';
  }

  bool Nested() const {
    return schedules_ == ScheduleClass::kNestedPersistent ||
           schedules_ == ScheduleClass::kOutputsOnly;
  }

  bool AnythingLiveFrom(const State& state, int first) const {
    return std::any_of(state.live.begin() + first, state.live.end(),
                       [](char c) { return c != ' '; });
  }

  const Chain& chain_;
  const int64_t memory_bytes_;
  const ScheduleClass schedules_;
  const int loss_;
  std::map<State, Reached> reached_;
  std::priority_queue<std::pair<double, const State*>, std::vector<std::pair<double, const State*>>,
                      Later>
      queue_;
};

}  // namespace

std::optional<BruteForceResult> FastestByBruteForce(const Chain& chain, int64_t memory_bytes,
                                                    ScheduleClass schedules) {
  return BruteForce(chain, memory_bytes, schedules).Run();
}

}  // namespace stowage
