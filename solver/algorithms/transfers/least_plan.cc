#include "solver/algorithms/transfers/least_plan.h"

#include <algorithm>
#include <utility>

#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"

namespace stowage {
namespace {

// A state before a stage, and the part that led to it.
struct State {
  int64_t kept = 0;                    // A
  int64_t host = 0;                    // H
  int32_t parent = -1;                 // index in states_
  int16_t first = 0;                   // first stage of the part; it ends before this state's stage
  bool saved = false;                  // the part is a saved stage
  PartInput input = PartInput::kKept;  // of the part
};

// The stage and the form of its input: x is 1 for ā^(i-1) and 0 for a^(i-1), as in POFO.
struct Position {
  int i = 0;
  int x = 0;
};

// Decides whether a budget is enough. Borrows its arguments; `minimum` may be null.
class Search {
 public:
  Search(const Chain& chain, const Platform& platform, const RotorMinimum* minimum)
      : chain_(chain),
        platform_(platform),
        minimum_(minimum),
        last_(chain.length() + 1),
        moves_(platform.has_link()),
        placement_(chain, platform) {}

  // A schedule within `memory_bytes`; nullopt if the search finds none.
  absl::StatusOr<std::optional<Schedule>> Within(int64_t memory_bytes,
                                                 const SolveContext& context) {
    memory_ = memory_bytes;
    states_.clear();
    buckets_.assign(static_cast<size_t>(last_) * 2 + 2, {});
    Bucket({1, 0}).push_back({});  // at first only the input exists
    // Buckets are complete when they are visited: parts lead to later stages only.
    for (int i = 1; i <= last_; ++i) {
      RETURN_IF_ERROR(context.CheckStop());
      for (int x = 0; x <= 1; ++x) {
        const std::vector<State> bucket = Pareto(std::move(Bucket({i, x})));
        for (const State& state : bucket) {
          states_.push_back(state);
          const auto index = static_cast<int32_t>(states_.size()) - 1;
          if (!Expand({i, x}, index)) continue;
          std::optional<Schedule> schedule = ToSchedule(index);
          if (schedule.has_value()) return schedule;
        }
      }
    }
    return std::optional<Schedule>();
  }

 private:
  std::vector<State>& Bucket(const Position& at) {
    return buckets_[static_cast<size_t>(at.i) * 2 + at.x - 2];
  }

  // I: the size of value i-1 in its form.
  int64_t Input(const Position& at) const {
    if (at.i == 1) return chain_.input_bytes;
    return at.x == 1 ? chain_.saved_bytes(at.i - 1) : chain_.output_bytes(at.i - 1);
  }

  // The number of states kept for one position: fewer in long chains, where each costs more.
  size_t MostStates() const {
    constexpr int kMax = 32;
    constexpr int kMin = 4;
    constexpr int kLongChain = 200;
    return static_cast<size_t>(std::clamp(kMax * kLongChain / last_, kMin, kMax));
  }

  // The Pareto front of (A, H), thinned evenly to MostStates(). Without a limit on host memory, H
  // does not matter and one state remains.
  std::vector<State> Pareto(std::vector<State> states) const {
    std::sort(states.begin(), states.end(), [](const State& a, const State& b) {
      return std::pair(a.kept, a.host) < std::pair(b.kept, b.host);
    });
    std::vector<State> best;
    for (const State& state : states) {
      const bool limited = platform_.host_memory_bytes > 0;
      if (best.empty() || (limited && state.host < best.back().host)) best.push_back(state);
    }
    const size_t most = MostStates();
    if (best.size() <= most) return best;
    std::vector<State> some;
    for (size_t i = 0; i < most; ++i) some.push_back(best[i * (best.size() - 1) / (most - 1)]);
    return some;
  }

  // Extends a state by every possible part. Returns true if the state passes the loss.
  bool Expand(const Position& at, int32_t index) {
    const int i = at.i;
    const State from = states_[static_cast<size_t>(index)];
    const int64_t free = memory_ - from.kept - Input(at);
    const Stage& stage = chain_.stage(i);
    // Save stage i: its forward and its backward must fit.
    const int64_t back = chain_.gradient_bytes(i) + chain_.gradient_bytes(i - 1);
    const int64_t extra =
        std::max(stage.SaveOverheadBytes(0), back + stage.backward_overhead_bytes);
    if (stage.saved_bytes + extra <= free) {
      if (i == last_) return true;
      Push({i + 1, 1}, at, index);
    }
    if (minimum_ == nullptr) return false;
    // Recompute [i..j]: the sweep of the forward phase (m_∅) and the recomputation (K) must fit.
    int64_t need = 0;
    for (int j = i; j < last_ && !chain_.stage(j).no_recompute; ++j) {
      const int64_t input = j == i ? 0 : chain_.output_bytes(j - 1);
      need = std::max(need, input + chain_.stage(j).OutputNeedBytes());
      if (need > free) break;
      if (minimum_->min_bytes(i - 1, j - 1) <= free) Push({j + 1, 0}, at, index);
    }
    return false;
  }

  // Adds the states at `next` that result from a part that begins at `from`, with its input kept
  // and, if allowed, offloaded.
  void Push(const Position& next, const Position& from, int32_t index) {
    State state = states_[static_cast<size_t>(index)];
    const int first = from.i;
    const int64_t input = Input(from);
    const int64_t limit = platform_.host_memory_bytes;
    state.parent = index;
    state.first = static_cast<int16_t>(first);
    state.saved = next.x == 1;
    const bool may_move = moves_ && (first == 1 || !chain_.stage(first - 1).no_offload);
    state.input = PartInput::kKept;
    state.kept += input;
    // Keeping helps only where host memory is limited or the value may not leave.
    if (!may_move || limit > 0) Add(state, &Bucket(next));
    if (!may_move || (limit > 0 && state.host + input > limit)) return;
    state.input = PartInput::kOffloaded;
    state.kept -= input;
    state.host += input;
    Add(state, &Bucket(next));
  }

  // Without a limit on host memory, only the state with the least A is kept.
  void Add(const State& state, std::vector<State>* bucket) const {
    constexpr size_t kMaxWaiting = 512;
    if (platform_.host_memory_bytes > 0 || bucket->empty()) {
      bucket->push_back(state);
      if (bucket->size() >= kMaxWaiting) *bucket = Pareto(std::move(*bucket));
    } else if (state.kept < bucket->front().kept) {
      bucket->front() = state;
    }
  }

  // Follows the parents back to the parts and places the transfers. nullopt if the placement needs
  // more memory or the schedule too many operations.
  std::optional<Schedule> ToSchedule(int32_t index) {
    std::vector<ForwardPart> parts = {SavedPart(last_)};
    for (int32_t at = index; states_[static_cast<size_t>(at)].parent >= 0;
         at = states_[static_cast<size_t>(at)].parent) {
      const State& state = states_[static_cast<size_t>(at)];
      const int end = parts.back().first - 1;
      if (state.saved) {
        parts.push_back(SavedPart(end, state.input));
        continue;
      }
      std::optional<Schedule> recomputation = minimum_->LeastSchedule(state.first - 1, end - 1);
      if (!recomputation.has_value()) return std::nullopt;
      parts.push_back(
          PassedPart(state.first, end, std::move(recomputation->operations), state.input));
    }
    std::reverse(parts.begin(), parts.end());
    AssembleParts(chain_, parts, &assembled_);
    if (!placement_.Place(assembled_.sequence, assembled_.choices, memory_).has_value()) {
      return std::nullopt;
    }
    Schedule schedule = placement_.ToSchedule(assembled_.sequence);
    if (schedule.operations.size() > kMaxOperations) return std::nullopt;
    return schedule;
  }

  const Chain& chain_;
  const Platform& platform_;
  const RotorMinimum* const minimum_;  // null: no recomputation
  const int last_;                     // the loss
  const bool moves_;
  int64_t memory_ = 0;
  std::vector<std::vector<State>> buckets_;
  std::vector<State> states_;
  TransferPlacement placement_;
  AssembledSequence assembled_;
};

}  // namespace

absl::StatusOr<std::optional<LeastPlan>> FindLeastPlan(const Chain& chain, const Platform& platform,
                                                       Recomputation recomputation,
                                                       const SolveContext& context) {
  std::optional<RotorMinimum> minimum;
  int64_t high = StoreAllPeakBytes(chain);
  if (recomputation == Recomputation::kParts) {
    ASSIGN_OR_RETURN(minimum, RotorMinimum::Build(chain, Saving::kAlways, context));
  }
  Search search(chain, platform, minimum.has_value() ? &*minimum : nullptr);
  ASSIGN_OR_RETURN(std::optional<Schedule> schedule, search.Within(high, context));
  if (!schedule.has_value()) return std::optional<LeastPlan>();
  // Bisection. Invariant: `least` has a schedule, and `low` is below M_low or was not enough.
  LeastPlan least{high, *std::move(schedule)};
  int64_t low = FloorOfMemory(chain).bytes - 1;  // less than M_low
  while (low + 1 < least.memory_bytes) {
    const int64_t middle = low + (least.memory_bytes - low) / 2;
    ASSIGN_OR_RETURN(schedule, search.Within(middle, context));
    if (schedule.has_value()) {
      least = {middle, *std::move(schedule)};
    } else {
      low = middle;
    }
  }
  return least;
}

int64_t LeastPlanBytes(const Chain& chain, Recomputation recomputation) {
  constexpr int64_t kPerStage = 80 << 10;  // states, a schedule and its placement
  const int64_t states = (chain.length() + 2) * kPerStage;
  return recomputation == Recomputation::kNone ? states
                                               : states + RotorMinimum::WorkingBytes(chain);
}

}  // namespace stowage
