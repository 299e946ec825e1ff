#include "solver/algorithms/flat/least_offload.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "solver/algorithms/flat/remaining_time.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

struct State {
  int64_t kept = 0;    // k
  int64_t going = 0;   // x
  int64_t coming = 0;  // y
  int32_t from = 0;    // the position that its last arc begins at; 0: none
  int32_t index = 0;   // of the state there
  bool recomputed = false;
  bool offloaded = false;
};
using States = std::vector<State>;

bool Dominates(const State& a, const State& b) {
  return a.kept <= b.kept && a.going <= b.going && a.going + a.coming <= b.going + b.coming;
}

void Add(const State& added, States* states) {
  for (const State& state : *states) {
    if (Dominates(state, added)) return;
  }
  std::erase_if(*states, [&](const State& state) { return Dominates(added, state); });
  if (states->size() < kMostStates) {
    states->push_back(added);
    return;
  }
  State& most = *std::ranges::max_element(*states, {}, &State::kept);
  if (added.kept < most.kept) most = added;
}

class Search {
 public:
  explicit Search(const PlanArcs& arcs)
      : arcs_(arcs), states_(static_cast<size_t>(arcs.positions()) + 2) {}

  // A plan within `memory`, if there is one.
  absl::StatusOr<std::optional<OffloadPlan>> Within(int64_t memory, const SolveContext& context) {
    for (States& states : states_) states.clear();
    states_[1].push_back({.kept = arcs_.start_bytes()});
    std::vector<Arc> from;
    for (int p = 1; p <= arcs_.positions(); ++p) {
      RETURN_IF_ERROR(context.CheckStop());
      const States& states = states_[static_cast<size_t>(p)];
      if (states.empty()) continue;
      const auto least = std::ranges::min_element(states, {}, &State::kept);
      arcs_.From(p, memory - least->kept, &from);
      for (size_t i = 0; i < states.size(); ++i) {
        for (const Arc& arc : from) Extend(p, i, arc, memory);
      }
    }
    const States& ends = states_.back();
    const auto fits = [&](const State& end) {
      return end.kept <= memory - arcs_.end_sweep_need() &&
             end.kept + end.coming <= memory - arcs_.end_backward_need();
    };
    const auto end = std::ranges::find_if(ends, fits);
    if (end == ends.end()) return std::optional<OffloadPlan>();
    return std::optional<OffloadPlan>(PlanTo(*end));
  }

  // What a plan needs.
  int64_t Bytes(const OffloadPlan& plan) const {
    int64_t bytes = 0;
    State state{.kept = arcs_.start_bytes()};
    int p = 1;
    std::vector<Arc> from;
    for (size_t i = 0; i < plan.pieces.size(); ++i) {
      arcs_.From(p, INT64_MAX, &from);
      const Piece& piece = plan.pieces[i];
      const auto arc = std::ranges::find_if(from, [&](const Arc& candidate) {
        return arcs_.PieceOf(p, candidate.to, candidate.recomputed) == piece;
      });
      bytes = std::max({bytes, state.kept + state.going + arc->sweep_need,
                        state.kept + state.going + state.coming + arc->backward_need});
      state = Behind(state, *arc, plan.offloaded[i]);
      p = arc->to;
    }
    return std::max({bytes, state.kept + arcs_.end_sweep_need(),
                     state.kept + state.coming + arcs_.end_backward_need()});
  }

 private:
  static State Behind(const State& state, const Arc& arc, bool offloaded) {
    return {.kept = state.kept + (offloaded ? 0 : arc.add),
            .going = offloaded ? arc.add : 0,
            .coming = state.going,
            .recomputed = arc.recomputed,
            .offloaded = offloaded};
  }

  void Extend(int p, size_t index, const Arc& arc, int64_t memory) {
    const State& state = states_[static_cast<size_t>(p)][index];
    const int64_t busy = state.kept + state.going;
    if (busy > memory - arc.sweep_need) return;
    if (busy + state.coming > memory - arc.backward_need) return;
    for (const bool offloaded : {false, true}) {
      if (offloaded && (arc.copies == 0 || arc.to > arcs_.positions())) continue;
      State behind = Behind(state, arc, offloaded);
      behind.from = p;
      behind.index = static_cast<int32_t>(index);
      Add(behind, &states_[static_cast<size_t>(arc.to)]);
    }
  }

  OffloadPlan PlanTo(const State& end) const {
    OffloadPlan plan;
    int to = arcs_.positions() + 1;
    for (State state = end; state.from != 0;) {
      plan.pieces.push_back(arcs_.PieceOf(state.from, to, state.recomputed));
      plan.offloaded.push_back(state.offloaded);
      to = state.from;
      state = states_[static_cast<size_t>(to)][static_cast<size_t>(state.index)];
    }
    std::reverse(plan.pieces.begin(), plan.pieces.end());
    std::reverse(plan.offloaded.begin(), plan.offloaded.end());
    return plan;
  }

  const PlanArcs& arcs_;
  std::vector<States> states_;  // by position
};

}  // namespace

absl::StatusOr<LeastOffload> FindLeastOffload(const PlanArcs& arcs, const SolveContext& context) {
  Search search(arcs);
  LeastOffload least;
  // Nothing offloaded is a plan, too.
  ASSIGN_OR_RETURN(least.memory_bytes, LeastBytesOf(arcs, context));
  int64_t too_little = -1;
  // Most chains need no more than if copies took no memory: the first step looks there.
  int64_t tried = 0;
  std::vector<Arc> from;
  for (int p = 1; p <= arcs.positions(); ++p) {
    arcs.From(p, INT64_MAX, &from);
    int64_t need = INT64_MAX;
    for (const Arc& arc : from) need = std::min(need, arc.need);
    tried = std::max(tried, need);
  }
  tried = std::min(std::max(tried, arcs.end_need()), least.memory_bytes);
  while (too_little < least.memory_bytes) {
    ASSIGN_OR_RETURN(std::optional<OffloadPlan> plan, search.Within(tried, context));
    if (plan.has_value()) {
      least = {search.Bytes(*plan), *std::move(plan)};
    } else {
      too_little = tried;
    }
    if (too_little + 1 >= least.memory_bytes && !least.plan.pieces.empty()) break;
    tried = too_little + std::max<int64_t>(1, (least.memory_bytes - too_little) / 2);
  }
  return least;
}

int64_t FindLeastOffloadBytes(int positions) {
  constexpr auto kStateBytes = static_cast<int64_t>(2 * kMostStates * sizeof(State));
  return (positions + 2) * kStateBytes;
}

}  // namespace stowage
