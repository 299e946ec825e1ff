#include "solver/algorithms/offload/dynprog.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "solver/algorithms/offload/stored_chain.h"
#include "solver/algorithms/slot_grid.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Before each stage; fewer in chains of thousands.
size_t MostStates(int stages) {
  constexpr int kMost = 1000;
  constexpr int kInAll = 400'000;
  return static_cast<size_t>(std::clamp(kInAll / std::max(1, stages), 32, kMost));
}

// Before a stage. Sizes in slots; what links move meanwhile is rounded to whole slots, too.
struct State {
  int64_t kept = 0;       // A
  int64_t leaving = 0;    // ΔF
  int64_t returning = 0;  // ΔB
  double idle = 0;        // seconds
  int32_t parent = -1;
  bool moved = false;  // the value read by the stage before
};

int64_t Positive(int64_t slots) { return std::max<int64_t>(0, slots); }

class Program {
 public:
  Program(const Instance& instance, int64_t memory_bytes, SlotGrid::Rounding rounding)
      : chain_(instance.chain()), stored_(instance), rounding_(rounding) {
    const int64_t asked = instance.options().memory_slots;
    slots_ = std::clamp<int64_t>(asked > 0 ? asked : kDefaultMemorySlots, 1,
                                 std::max<int64_t>(1, memory_bytes));
    bytes_per_slot_ =
        std::max(1.0, static_cast<double>(memory_bytes) / static_cast<double>(slots_));
    out_rate_ = instance.platform().offload_bytes_per_second / bytes_per_slot_;
    in_rate_ = instance.platform().prefetch_rate() / bytes_per_slot_;
    memory_ = slots_;
  }

  absl::StatusOr<std::optional<std::vector<bool>>> Solve(const SolveContext& context) {
    const int last = chain_.length() + 1;
    std::vector<State> now = {State{}};
    layers_.clear();
    for (int i = 1; i <= last; ++i) {
      RETURN_IF_ERROR(context.CheckStop());
      layers_.push_back(now);
      std::vector<State> next;
      for (size_t index = 0; index < now.size(); ++index) {
        Expand(i, now[index], static_cast<int32_t>(index), &next);
      }
      now = Fewest(std::move(next));
      context.Report(static_cast<double>(i) / last);
    }
    if (now.empty()) return std::optional<std::vector<bool>>();
    const auto best = std::min_element(
        now.begin(), now.end(),
        [this](const State& a, const State& b) { return a.idle + Gap(a) < b.idle + Gap(b); });
    return Backtrack(*best);
  }

 private:
  int64_t Slots(int64_t bytes) const {
    const double slots = static_cast<double>(bytes) / bytes_per_slot_;
    return static_cast<int64_t>(rounding_ == SlotGrid::Rounding::kUp ? std::ceil(slots)
                                                                     : std::round(slots));
  }
  int64_t Input(int i) const {
    return Slots(i == 1 ? chain_.input_bytes : chain_.saved_bytes(i - 1));
  }

  void Expand(int i, const State& from, int32_t index, std::vector<State>* next) const {
    const Stage& stage = chain_.stage(i);
    const int64_t input = Input(i);
    const int64_t forward = input + Slots(stage.saved_bytes) + Slots(stage.forward_overhead_bytes);
    const int64_t backward = input + Slots(stage.saved_bytes) + Slots(chain_.gradient_bytes(i)) +
                             Slots(chain_.gradient_bytes(i - 1)) +
                             Slots(stage.backward_overhead_bytes);
    if (from.kept + std::max(forward, backward) > memory_) return;
    const double wait = Wait(from.kept + forward + Positive(from.leaving), out_rate_);
    const double back_wait = Wait(from.kept + backward + Positive(from.returning), in_rate_);
    const int64_t left = SlotsCopied(out_rate_ * (stage.forward_seconds + wait));
    const int64_t returned = SlotsCopied(in_rate_ * (stage.backward_seconds + back_wait));
    State state = from;
    state.idle += wait + back_wait;
    state.parent = index;
    state.moved = false;
    state.kept = from.kept + input;
    state.leaving = from.leaving - left;
    state.returning = from.returning - returned;
    next->push_back(state);
    if (!stored_.MayMove(i - 1)) return;
    state.moved = true;
    state.kept = from.kept;
    state.leaving = Positive(from.leaving) + input - left;
    state.returning = input + Positive(from.returning - returned);
    next->push_back(state);
  }

  // More than there ever are make no difference, but that all stages' together stay a number.
  static int64_t SlotsCopied(double slots) {
    constexpr double kMost = 0x1p40;
    return std::llround(std::min(slots, kMost));
  }

  double Wait(int64_t need, double rate) const {
    return need > memory_ && rate > 0 ? static_cast<double>(need - memory_) / rate : 0;
  }

  // Idle seconds between the phases.
  double Gap(const State& state) const {
    const double out = state.leaving > 0 ? static_cast<double>(state.leaving) / out_rate_ : 0;
    const double in = state.returning > 0 ? static_cast<double>(state.returning) / in_rate_ : 0;
    if (state.leaving > 0 && state.returning > 0) return out + in;
    if (state.leaving > 0) return GapBeside(state, out, in_rate_, /*backward=*/true);
    if (state.returning > 0) return GapBeside(state, in, out_rate_, /*backward=*/false);
    return 0;
  }

  // The copies that are left go on beside the computations next to the loss, as long as the link
  // that they share or follow on is free: `seconds` of copies, in rest for what `other_rate` says.
  double GapBeside(const State& state, double seconds, double other_rate, bool backward) const {
    const int64_t idle_slots = backward ? -state.returning : -state.leaving;
    const double free_seconds = static_cast<double>(idle_slots) / other_rate;
    const double rate = backward ? out_rate_ : in_rate_;
    const int64_t there = state.kept + (backward ? state.leaving : state.returning);
    double gap = std::max(0.0, seconds - free_seconds);
    double offset = 0;
    int64_t gone = 0;
    for (int j = chain_.length(); j >= 1 && offset < free_seconds; --j) {
      const Stage& stage = chain_.stage(j);
      gone += Input(j + 1);
      const int64_t need = backward ? Slots(chain_.gradient_bytes(j)) +
                                          Slots(chain_.gradient_bytes(j - 1)) +
                                          Slots(stage.backward_overhead_bytes)
                                    : Slots(stage.forward_overhead_bytes);
      const auto over = static_cast<double>(there + need + Input(j + 1) - gone - memory_);
      gap = std::max(gap, over / rate - offset);
      offset += backward ? stage.backward_seconds : stage.forward_seconds;
    }
    return gap;
  }

  // Leaves those that no other beats in everything; of too many the most promising.
  std::vector<State> Fewest(std::vector<State> states) const {
    const auto hope = [this](const State& state) {
      return state.idle +
             static_cast<double>(Positive(state.leaving)) / std::max(out_rate_, 1e-300) +
             static_cast<double>(Positive(state.returning)) / std::max(in_rate_, 1e-300);
    };
    std::sort(states.begin(), states.end(), [](const State& a, const State& b) {
      return std::tie(a.idle, a.kept, a.leaving, a.returning) <
             std::tie(b.idle, b.kept, b.leaving, b.returning);
    });
    const size_t most = MostStates(chain_.length());
    if (states.size() > most) {
      std::stable_sort(states.begin(), states.end(),
                       [&](const State& a, const State& b) { return hope(a) < hope(b); });
      states.resize(most);
      std::stable_sort(states.begin(), states.end(),
                       [](const State& a, const State& b) { return a.idle < b.idle; });
    }
    std::vector<State> best;
    for (const State& state : states) {
      const bool beaten = std::any_of(best.begin(), best.end(), [&state](const State& other) {
        return other.kept <= state.kept && other.leaving <= state.leaving &&
               other.returning <= state.returning;
      });
      if (!beaten) best.push_back(state);
    }
    return best;
  }

  std::vector<bool> Backtrack(const State& end) const {
    std::vector<bool> moved(static_cast<size_t>(chain_.length()) + 1);
    State state = end;
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      const auto value = static_cast<size_t>(layers_.rend() - layer) - 1;
      moved[value] = state.moved;
      state = (*layer)[static_cast<size_t>(state.parent)];
    }
    return moved;
  }

  const Chain& chain_;
  StoredChain stored_;
  const SlotGrid::Rounding rounding_;
  int64_t slots_ = 0;
  int64_t memory_ = 0;
  double bytes_per_slot_ = 1;
  double out_rate_ = 0;  // slots a second
  double in_rate_ = 0;
  std::vector<std::vector<State>> layers_;  // before each stage
};

class OffloadDynprog final : public StoringAlgorithm {
 public:
  const char* name() const override { return "offload_dynprog"; }

  int64_t WorkingBytes(const Instance& instance) const override {
    const int stages = instance.chain().length();
    const auto per_stage = static_cast<int64_t>(2 * MostStates(stages) * sizeof(State));
    return StoringAlgorithm::WorkingBytes(instance) + (stages + 4) * per_stage;
  }

  absl::StatusOr<std::optional<Schedule>> Find(const Instance& instance, int64_t memory_bytes,
                                               const SolveContext& context) const override {
    std::optional<Schedule> best;
    double best_seconds = 0;
    StoredChain chain(instance);
    // Rounded up, as in the paper, a long chain seems to need far more than it does; to nearest, it
    // may need a little more than it seems to.
    for (const auto rounding : {SlotGrid::Rounding::kUp, SlotGrid::Rounding::kNearest}) {
      ASSIGN_OR_RETURN(std::optional<std::vector<bool>> moved,
                       Program(instance, memory_bytes, rounding).Solve(context));
      if (!moved.has_value()) continue;
      ASSIGN_OR_RETURN(const std::optional<double> seconds,
                       PlaceWithMore(&chain, *std::move(moved), memory_bytes, context));
      if (!seconds.has_value() || (best.has_value() && *seconds >= best_seconds)) continue;
      best_seconds = *seconds;
      best = chain.ToSchedule();
    }
    return best;
  }

 private:
  // Moves the first values, too, as far as it takes to fit.
  static absl::StatusOr<std::optional<double>> PlaceWithMore(StoredChain* chain,
                                                             std::vector<bool> moved,
                                                             int64_t memory_bytes,
                                                             const SolveContext& context) {
    std::optional<double> seconds = chain->Place(moved, memory_bytes);
    for (size_t l = 0; l < moved.size() && !seconds.has_value(); ++l) {
      if (moved[l] || !chain->MayMove(static_cast<int>(l))) continue;
      RETURN_IF_ERROR(context.CheckStop());
      moved[l] = true;
      seconds = chain->Place(moved, memory_bytes);
    }
    return seconds;
  }
};

}  // namespace

std::unique_ptr<Solver> MakeOffloadDynprog() {
  return MakeBudgetSolver(std::make_unique<OffloadDynprog>());
}

}  // namespace stowage
