#include "solver/algorithms/flat/plan_search.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "solver/algorithms/flat/remaining_time.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Labels a position, round by round. The first round is to find a good plan at once, the bound of
// which shortens the fronts of the next.
constexpr size_t kRounds[] = {16, 128, 1024, 8192};
// Of all positions together.
constexpr size_t kMaxLabels = 4'000'000;
// Arcs times labels of a round, which is what it takes time for: some seconds at worst.
constexpr int64_t kMaxWork = 1'100'000'000;

struct Label {
  int64_t kept = 0;
  int64_t ticks = 0;
  int32_t from = 0;   // the position that its last arc begins at, times kFlags, and its flags
  int32_t index = 0;  // of the label there
};
using Front = std::vector<Label>;
constexpr int kRecomputed = 1;
constexpr int kOffloaded = 2;
constexpr int kSaveOption = 4;  // times the option
constexpr int kFlags = 32;
static_assert(kSaveOption * (kMaxSaveOptions + 1) <= kFlags);

// A front is thinned at once where it has grown to so many.
size_t LongestFront(size_t labels) { return 2 * labels + 128; }

// `labels` are kept at a position. Fronts grow by doubling; two more are for merging.
int64_t RoundBytes(int positions, size_t labels) {
  const auto front = static_cast<int64_t>(2 * LongestFront(labels) * sizeof(Label));
  return RemainingTime::WorkingBytes(positions) + (positions + 4) * front;
}

// The most labels a position within so much memory.
size_t MostLabels(int positions, int64_t working_bytes) {
  size_t most = 0;
  for (const size_t labels : kRounds) {
    if (labels > kRounds[0] && labels * static_cast<size_t>(positions) > kMaxLabels) break;
    if (labels > kRounds[0] && RoundBytes(positions, labels) > working_bytes) break;
    most = labels;
  }
  return most;
}

class Round {
 public:
  // Looks for plans of fewer than `below` ticks.
  Round(const PlanArcs& arcs, const RemainingTime& remaining, size_t most, int64_t below)
      : arcs_(arcs),
        remaining_(remaining),
        most_(most),
        highest_(below - arcs.tick_step()),
        fronts_(static_cast<size_t>(arcs.positions()) + 2) {}

  absl::Status Run(const SolveContext& context) {
    fronts_[1] = {{.kept = arcs_.start_bytes()}};
    std::vector<Arc> from;
    for (int p = 1; p <= arcs_.positions(); ++p) {
      RETURN_IF_ERROR(context.CheckStop());
      Front& front = fronts_[static_cast<size_t>(p)];
      Thin(p, most_, &front);
      if (front.empty()) continue;
      arcs_.From(p, INT64_MAX, &from);
      for (const Arc& arc : from) {
        RETURN_IF_ERROR(context.CheckStop());
        Extend(p, arc);
      }
    }
    return absl::OkStatus();
  }

  // Whether labels were left out that might have led to a faster plan.
  bool cut() const { return cut_; }

  // Sets the fastest plan, if the round found one.
  bool GetPlan(FoundPlan* plan) const {
    if (fronts_.back().empty()) return false;
    plan->pieces.clear();
    plan->offloaded.clear();
    plan->ticks = fronts_.back().back().ticks;
    int to = arcs_.positions() + 1;
    for (Label label = fronts_.back().back(); label.from != 0;) {
      const int from = label.from / kFlags;
      plan->pieces.push_back(arcs_.PieceOf(from, to, (label.from & kRecomputed) != 0));
      plan->pieces.back().save_option = label.from % kFlags / kSaveOption;
      plan->offloaded.push_back((label.from & kOffloaded) != 0);
      label = fronts_[static_cast<size_t>(from)][static_cast<size_t>(label.index)];
      to = from;
    }
    std::reverse(plan->pieces.begin(), plan->pieces.end());
    std::reverse(plan->offloaded.begin(), plan->offloaded.end());
    return true;
  }

 private:
  // Adds the front of position p, one arc later, to that of the arc's end.
  void Extend(int p, const Arc& arc) {
    const Front& front = fronts_[static_cast<size_t>(p)];
    extended_.clear();
    size_t at = SIZE_MAX;
    for (size_t i = 0; i < front.size(); ++i) {
      const int64_t kept = front[i].kept + arc.add;
      if (!remaining_.FitsArc(arc, front[i].kept) || !remaining_.Fits(arc.to, kept)) break;
      const int64_t ticks = front[i].ticks + arc.ticks;
      if (ticks + remaining_.LeastTicks(arc.to, kept, &at) > highest_) continue;
      const int flags = (arc.recomputed ? kRecomputed : 0) + (arc.offloaded ? kOffloaded : 0) +
                        kSaveOption * arc.save_option;
      extended_.push_back({kept, ticks, kFlags * p + flags, static_cast<int32_t>(i)});
    }
    if (extended_.empty()) return;
    Front& target = fronts_[static_cast<size_t>(arc.to)];
    Merge(extended_, &target);
    if (target.size() > LongestFront(most_)) Thin(arc.to, most_, &target);
  }

  // The front of both.
  void Merge(const Front& added, Front* front) {
    merged_.clear();
    auto a = front->begin();
    auto b = added.begin();
    while (a != front->end() || b != added.end()) {
      const bool first =
          b == added.end() ||
          (a != front->end() && std::pair(a->kept, a->ticks) <= std::pair(b->kept, b->ticks));
      const Label& next = first ? *a++ : *b++;
      if (merged_.empty() || next.ticks < merged_.back().ticks) merged_.push_back(next);
    }
    front->swap(merged_);
  }

  // Of each of `most` runs of neighbours, leaves the label with the best prospects.
  void Thin(int position, size_t most, Front* front) {
    const size_t size = front->size();
    if (size <= most) return;
    cut_ = true;
    size_t at = SIZE_MAX;
    for (size_t run = 0; run < most; ++run) {
      size_t best = 0;
      int64_t best_ticks = INT64_MAX;
      for (size_t i = run * size / most; i < (run + 1) * size / most; ++i) {
        const Label& label = (*front)[i];
        const int64_t ticks = label.ticks + remaining_.LeastTicks(position, label.kept, &at);
        if (ticks > best_ticks) continue;
        best = i;
        best_ticks = ticks;
      }
      (*front)[run] = (*front)[best];  // at or behind `run`
    }
    front->resize(most);
  }

  const PlanArcs& arcs_;
  const RemainingTime& remaining_;
  const size_t most_;
  const int64_t highest_;  // of the ticks that are of use
  std::vector<Front> fronts_;
  bool cut_ = false;
  Front extended_;
  Front merged_;
};

}  // namespace

absl::StatusOr<std::optional<FoundPlan>> FindFastestPlan(
    const PlanArcs& arcs, int64_t memory_bytes, const SolveContext& context,
    const std::function<void(const FoundPlan&)>& improved) {
  ASSIGN_OR_RETURN(const RemainingTime remaining, RemainingTime::Of(arcs, memory_bytes, context));
  if (!remaining.Fits(1, arcs.start_bytes())) return std::optional<FoundPlan>();
  FoundPlan best;
  best.ticks = INT64_MAX;
  best.least_ticks = std::max<int64_t>(0, remaining.LeastTicks(1, arcs.start_bytes()));
  const size_t most = MostLabels(arcs.positions(), context.working_bytes);
  for (const size_t labels : kRounds) {
    if (labels > most) break;
    if (labels > kRounds[0] && static_cast<int64_t>(labels) * arcs.most_arcs() > kMaxWork) break;
    Round round(arcs, remaining, labels, best.ticks);
    RETURN_IF_ERROR(round.Run(context));
    if (round.GetPlan(&best) && improved) improved(best);
    if (!round.cut()) {
      best.least_ticks = best.ticks;
      break;
    }
  }
  return std::optional<FoundPlan>(std::move(best));
}

int64_t FindFastestPlanBytes(int positions, int64_t max_bytes) {
  return RoundBytes(positions, MostLabels(positions, max_bytes));
}

}  // namespace stowage
