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

// The limit on states before each stage; lower in chains of more than 400 stages.
size_t MostStates(int stages) {
  constexpr int kMax = 1000;
  constexpr int kInTotal = 400'000;
  return static_cast<size_t>(std::clamp(kInTotal / std::max(1, stages), 32, kMax));
}

// A state before a stage, in slots. What a link copies during a stage is rounded to whole slots,
// too.
struct State {
  int64_t kept = 0;       // A
  int64_t leaving = 0;    // ΔF
  int64_t returning = 0;  // ΔB
  double idle = 0;        // Σ ε, seconds
  int32_t parent = -1;    // index in the previous layer
  bool moved = false;     // the value that the previous stage reads is offloaded
};

int64_t Positive(int64_t slots) { return std::max<int64_t>(0, slots); }

// Where copies remain after the loss: offloads during the backward phase, or prefetches that must
// already start in the forward phase.
enum class Phase { kForward, kBackward };

// One run of the dynamic program. Borrows the instance.
class Program {
 public:
  Program(const Instance& instance, int64_t memory_bytes, SlotGrid::Rounding rounding)
      : chain_(instance.chain()), stored_(instance), rounding_(rounding) {
    const int64_t requested = instance.options().memory_slots;
    slots_ = std::clamp<int64_t>(requested > 0 ? requested : kDefaultMemorySlots, 1,
                                 std::max<int64_t>(1, memory_bytes));
    bytes_per_slot_ =
        std::max(1.0, static_cast<double>(memory_bytes) / static_cast<double>(slots_));
    out_rate_ = instance.platform().offload_bytes_per_second / bytes_per_slot_;
    in_rate_ = instance.platform().prefetch_rate() / bytes_per_slot_;
    memory_ = slots_;
  }

  // By value 0..L, whether it is offloaded; nullopt if no state passes the loss.
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
      now = Prune(std::move(next));
      context.Report(static_cast<double>(i) / last);
    }
    if (now.empty()) return std::optional<std::vector<bool>>();
    const auto best =
        std::min_element(now.begin(), now.end(), [this](const State& a, const State& b) {
          return a.idle + IdleBetweenPhases(a) < b.idle + IdleBetweenPhases(b);
        });
    return Backtrack(*best);
  }

 private:
  int64_t Slots(int64_t bytes) const {
    const double slots = static_cast<double>(bytes) / bytes_per_slot_;
    return static_cast<int64_t>(rounding_ == SlotGrid::Rounding::kUp ? std::ceil(slots)
                                                                     : std::round(slots));
  }
  // x: the size of the value that stage i reads.
  int64_t Input(int i) const {
    return Slots(i == 1 ? chain_.input_bytes : chain_.saved_bytes(i - 1));
  }

  // Appends the states after stage i: value i-1 kept, and offloaded if it may be. The equations of
  // the header, in their order. ΔF and ΔB may become negative, which counts for how long the link
  // has been idle.
  void Expand(int i, const State& from, int32_t index, std::vector<State>* next) const {
    const Stage& stage = chain_.stage(i);
    const int64_t input = Input(i);
    const int64_t forward = input + Slots(stage.saved_bytes) + Slots(stage.SaveOverheadBytes(0));
    const int64_t backward = input + Slots(stage.saved_bytes) + Slots(chain_.gradient_bytes(i)) +
                             Slots(chain_.gradient_bytes(i - 1)) +
                             Slots(stage.backward_overhead_bytes);
    if (from.kept + std::max(forward, backward) > memory_) return;
    // εF and εB, then what the links copy during the stage.
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

  // Rounds to whole slots. The limit is above any need and keeps the sum over all stages finite.
  static int64_t SlotsCopied(double slots) {
    constexpr double kMax = 0x1p40;
    return std::llround(std::min(slots, kMax));
  }

  // The seconds until a link has freed what `need` exceeds the memory by.
  double Wait(int64_t need, double rate) const {
    return need > memory_ && rate > 0 ? static_cast<double>(need - memory_) / rate : 0;
  }

  // Idle seconds between the forward and the backward phase.
  double IdleBetweenPhases(const State& state) const {
    const double out = state.leaving > 0 ? static_cast<double>(state.leaving) / out_rate_ : 0;
    const double in = state.returning > 0 ? static_cast<double>(state.returning) / in_rate_ : 0;
    if (state.leaving > 0 && state.returning > 0) return out + in;
    if (state.leaving > 0) return IdleBesideCompute(state, out, Phase::kBackward);
    if (state.returning > 0) return IdleBesideCompute(state, in, Phase::kForward);
    return 0;
  }

  // Equations 9 and 10. `seconds` of copies remain and continue during the computations of `phase`
  // that are next to the loss, as long as the other direction leaves the link idle. The idle time
  // is the larger of what remains after that and, for each stage j, the wait until enough is copied
  // for it.
  double IdleBesideCompute(const State& state, double seconds, Phase phase) const {
    const bool backward = phase == Phase::kBackward;
    const double other_rate = backward ? in_rate_ : out_rate_;
    const int64_t idle_slots = backward ? -state.returning : -state.leaving;
    const double free_seconds = static_cast<double>(idle_slots) / other_rate;
    const double rate = backward ? out_rate_ : in_rate_;
    const int64_t there = state.kept + (backward ? state.leaving : state.returning);
    double gap = std::max(0.0, seconds - free_seconds);
    double offset = 0;  // seconds from the loss to stage j
    int64_t gone = 0;   // values of stages nearer to the loss
    for (int j = chain_.length(); j >= 1 && offset < free_seconds; --j) {
      const Stage& stage = chain_.stage(j);
      gone += Input(j + 1);
      const int64_t need = backward ? Slots(chain_.gradient_bytes(j)) +
                                          Slots(chain_.gradient_bytes(j - 1)) +
                                          Slots(stage.backward_overhead_bytes)
                                    : Slots(stage.SaveOverheadBytes(0));
      const auto over = static_cast<double>(there + need + Input(j + 1) - gone - memory_);
      gap = std::max(gap, over / rate - offset);
      offset += backward ? stage.backward_seconds : stage.forward_seconds;
    }
    return gap;
  }

  // Removes dominated states. Of more than MostStates(), keeps those with the lowest estimate of
  // idle time first: what is so, plus what all remaining copies would take.
  std::vector<State> Prune(std::vector<State> states) const {
    const auto estimate = [this](const State& state) {
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
                       [&](const State& a, const State& b) { return estimate(a) < estimate(b); });
      states.resize(most);
      std::stable_sort(states.begin(), states.end(),
                       [](const State& a, const State& b) { return a.idle < b.idle; });
    }
    // States are sorted by idle time, so only earlier ones can dominate a state.
    std::vector<State> best;
    for (const State& state : states) {
      const bool dominated = std::any_of(best.begin(), best.end(), [&state](const State& other) {
        return other.kept <= state.kept && other.leaving <= state.leaving &&
               other.returning <= state.returning;
      });
      if (!dominated) best.push_back(state);
    }
    return best;
  }

  // Follows the parents from the state after the loss back to stage 1. layers_[i-1] has the states
  // before stage i, and a state's `moved` is about the value that the stage before it reads.
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
    // The paper rounds up, which overestimates the need of a long chain. Rounding to nearest may
    // underestimate it slightly; Place() then decides in bytes. Use the faster result.
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
  // Places `moved`. If that does not fit, offloads further values, the first of the chain first.
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
