#include "solver/algorithms/flat/offload_search.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "solver/algorithms/flat/least_offload.h"
#include "solver/algorithms/flat/plan_search.h"
#include "solver/algorithms/flat/priced_arcs.h"
#include "solver/algorithms/flat/remaining_time.h"
#include "solver/base/status_macros.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

constexpr double kPrecision = 1e-9;  // of makespans, relative
constexpr int kPriceSteps = 6;       // of the bisection for prices
constexpr int kRepairs = 3;          // smaller budgets that are tried at a price and distance
constexpr int kDistances[] = {1, 2, 3, 4, 6, kMaxAhead};
// Arcs times solves at prices, after the first of each price.
constexpr int64_t kPriceWork = 200'000;
// Operations that are simulated in single changes, and in branch and bound; pieces that it visits.
constexpr int64_t kChangeWork = 1'500'000;
constexpr int64_t kBranchWork = 1'500'000;
constexpr int64_t kBranchVisits = 1'000'000;
constexpr int kMostBranched = 500;  // positions: longer searches would not end

// One number for both prices: first the copies to the host take over from compute, whose forwards
// are the shorter half of the step, then those back.
CopyPrices PricesAt(double at) { return {std::min(at, 1.0), std::max(at - 1, 0.0)}; }

class Finder {
 public:
  Finder(const OffloadQuestion& question, const SolveContext& context,
         const std::function<void(const FoundOffload&)>& improved)
      : question_(question),
        chain_(question.chain),
        platform_(question.platform),
        context_(context),
        improved_(improved) {
    platform_.memory_bytes = question.memory_bytes;
    for (const Stage& stage : chain_.stages) sweep_seconds_ += stage.forward_seconds;
    loss_seconds_ = chain_.loss.forward_seconds;
    backward_seconds_ = EagerSeconds(chain_) - sweep_seconds_ - loss_seconds_;
  }

  absl::StatusOr<std::optional<FoundOffload>> Run() {
    RETURN_IF_ERROR(TryWithoutOffloads());
    for (const auto& narrower : question_.narrower) RETURN_IF_ERROR(TryPrices(*narrower));
    RETURN_IF_ERROR(TryPrices(question_.offloads));
    if (!best_.has_value()) RETURN_IF_ERROR(TryLeast());
    if (!Proved()) RETURN_IF_ERROR(TryChanges());
    if (!Proved()) RETURN_IF_ERROR(Branch());
    if (!best_.has_value()) return std::optional<FoundOffload>();
    best_->least_seconds = Proved() ? best_->seconds : least_seconds_;
    return std::move(best_);
  }

 private:
  bool Proved() const {
    return best_.has_value() && least_seconds_ >= best_->seconds * (1 - kPrecision);
  }

  // Simulates a plan and keeps it if it fits and is the fastest. Returns by how many bytes of
  // device memory it does not fit.
  absl::StatusOr<int64_t> Try(const OffloadPlan& plan) {
    const Schedule schedule = OffloadSchedule(chain_, plan);
    simulated_ += static_cast<int64_t>(schedule.operations.size());
    ASSIGN_OR_RETURN(const Simulation simulation,
                     Simulate(chain_, platform_, schedule, nullptr, context_.stop));
    const Prediction& prediction = simulation.prediction;
    const double seconds = prediction.makespan_seconds;
    if (simulation.feasible() && (!best_.has_value() || seconds < best_->seconds)) {
      best_ = FoundOffload{plan, seconds, least_seconds_};
      if (improved_) improved_(*best_);
    }
    return std::max<int64_t>(0, prediction.peak_memory_bytes - platform_.memory_bytes);
  }

  // With every distance that makes a difference; returns what the first, which needs least, lacks.
  absl::StatusOr<int64_t> TryAll(OffloadPlan plan) {
    const int most = std::min(kMaxAhead, static_cast<int>(plan.pieces.size()));
    int64_t lacks = 0;
    for (plan.ahead = 1; plan.ahead <= most; ++plan.ahead) {
      ASSIGN_OR_RETURN(const int64_t of_this, Try(plan));
      if (plan.ahead == 1) lacks = of_this;
      if (of_this > 0) break;  // longer distances need no less
    }
    return lacks;
  }

  absl::Status TryWithoutOffloads() {
    ASSIGN_OR_RETURN(const std::optional<FoundPlan> found,
                     FindFastestPlan(question_.arcs, question_.memory_bytes, context_.Quiet(), {}));
    if (!found.has_value()) return absl::OkStatus();
    plain_least_seconds_ = EagerSeconds(chain_) + static_cast<double>(found->least_ticks) *
                                                      question_.arcs.seconds_per_tick();
    const std::vector<bool> none(found->pieces.size(), false);
    return Try({found->pieces, none, 1}).status();
  }

  absl::Status TryLeast() {
    ASSIGN_OR_RETURN(const LeastOffload least, FindLeastOffload(question_.offloads, context_));
    if (least.plan.pieces.empty() || least.memory_bytes > question_.memory_bytes) {
      return absl::OkStatus();
    }
    return TryAll(least.plan).status();
  }

  // The constant part of the bound at these prices.
  double FixedSeconds(const CopyPrices& prices) const {
    return (1 - prices.offload) * sweep_seconds_ + loss_seconds_ +
           (1 - prices.prefetch) * backward_seconds_;
  }

  absl::StatusOr<std::optional<FoundPlan>> BestAt(const PlanArcs& plans, const CopyPrices& prices,
                                                  int64_t memory) {
    const PricedArcs arcs(plans, platform_, prices);
    SolveContext quick = context_.Quiet();
    quick.working_bytes = 0;  // one round of few labels
    return FindFastestPlan(arcs, memory, quick, {});
  }

  // Where compute or the link is short in the plan; a rising price of the link makes it copy less.
  bool LinkIsShort(const FoundPlan& found, double at) const {
    double copies = 0;
    double compute = at < 1 ? sweep_seconds_ : backward_seconds_;
    for (size_t i = 0; i < found.pieces.size(); ++i) {
      if (!found.offloaded[i]) continue;
      Arc arc;
      for (const int value : ValuesLeft(chain_, found.pieces[i])) {
        ++arc.copies;
        const bool saved = !found.pieces[i].recomputed || chain_.stage(value).no_recompute;
        arc.add += saved ? chain_.saved_bytes(value) : chain_.output_bytes(value);
      }
      copies += at < 1 ? OffloadSeconds(arc, platform_) : PrefetchSeconds(arc, platform_);
    }
    if (at >= 1) compute += static_cast<double>(found.ticks) * question_.arcs.seconds_per_tick();
    return copies > compute;
  }

  // Raises the bound, too, where these are all plans.
  absl::Status TryPrices(const PlanArcs& plans) {
    double low = 0;
    double high = 2;
    double at = 0;
    std::vector<std::pair<CopyPrices, FoundPlan>> tried;
    for (int step = 0; step < kPriceSteps && !Proved(); ++step) {
      const CopyPrices prices = PricesAt(at);
      ASSIGN_OR_RETURN(std::optional<FoundPlan> found,
                       BestAt(plans, prices, question_.memory_bytes));
      if (!found.has_value()) return absl::OkStatus();  // no plan fits
      if (&plans == &question_.offloads) RaiseBound(prices, *found);
      const bool is_short = LinkIsShort(*found, at);
      RETURN_IF_ERROR(TryAll({found->pieces, found->offloaded, 1}).status());
      tried.emplace_back(prices, *std::move(found));
      (is_short ? low : high) = at;
      if (!is_short && at == 0) break;  // the link is never short
      at = (low + high) / 2;
      context_.Report(0.3 * (step + 1) / kPriceSteps);
    }
    // The last prices are the closest to the best.
    int64_t work = kPriceWork;
    for (auto last = tried.rbegin(); last != tried.rend(); ++last) {
      for (const int ahead : kDistances) {
        RETURN_IF_ERROR(TryWithin(plans, last->first, last->second, ahead, &work));
      }
    }
    return absl::OkStatus();
  }

  void RaiseBound(const CopyPrices& prices, const FoundPlan& found) {
    const double ticks = static_cast<double>(found.least_ticks);
    const double bound = std::min(
        FixedSeconds(prices) + ticks * question_.offloads.seconds_per_tick(), plain_least_seconds_);
    if (bound <= raised_) return;
    raised_ = bound;
    prices_ = prices;
    least_seconds_ = std::max(least_seconds_, bound * (1 - kPrecision / 10));
  }

  // Copies on their way take memory that the search did not count, so it gets less.
  absl::Status TryWithin(const PlanArcs& plans, const CopyPrices& prices, FoundPlan found,
                         int ahead, int64_t* work) {
    int64_t memory = question_.memory_bytes;
    for (int repair = 0; repair < kRepairs && !Proved(); ++repair) {
      if (repair > 0) {
        *work -= plans.most_arcs();
        if (*work < 0) return absl::OkStatus();
        ASSIGN_OR_RETURN(std::optional<FoundPlan> next, BestAt(plans, prices, memory));
        if (!next.has_value()) return absl::OkStatus();
        found = *std::move(next);
      }
      ASSIGN_OR_RETURN(const int64_t lacks, Try({found.pieces, found.offloaded, ahead}));
      if (lacks == 0) return absl::OkStatus();
      memory -= lacks;
    }
    return absl::OkStatus();
  }

  // The changes of piece `i`, as plans.
  std::vector<OffloadPlan> ChangesOf(const OffloadPlan& plan, size_t i) {
    std::vector<OffloadPlan> changes;
    const auto moves = [&](size_t piece) { return MayLeave(plan.pieces[piece]); };
    const bool last = i + 1 == plan.pieces.size();
    if (!last && moves(i)) {
      changes.push_back(plan);
      changes.back().offloaded[i] = !plan.offloaded[i];
    }
    if (i + 2 < plan.pieces.size() && plan.offloaded[i] != plan.offloaded[i + 1] && moves(i) &&
        moves(i + 1)) {
      changes.push_back(plan);
      changes.back().offloaded[i] = plan.offloaded[i + 1];
      changes.back().offloaded[i + 1] = plan.offloaded[i];
    }
    if (MayChange(plan.pieces[i])) {
      OffloadPlan changed = plan;
      Piece& piece = changed.pieces[i];
      piece.recomputed = !piece.recomputed;
      for (const bool offloaded : {false, true}) {
        if (offloaded && (last || !MayLeave(piece))) continue;
        changed.offloaded[i] = offloaded;
        changes.push_back(changed);
      }
    }
    return changes;
  }

  bool MayLeave(const Piece& piece) const {
    const std::vector<int> values = ValuesLeft(chain_, piece);
    return std::ranges::none_of(values, [&](int l) { return chain_.stage(l).no_offload; });
  }

  // Whether the class has the piece saved as well as recomputed.
  bool MayChange(const Piece& piece) {
    if (change_from_ != piece.first) {
      change_from_ = piece.first;
      may_change_.clear();
      for (int p = 1; p <= question_.offloads.positions(); ++p) {
        if (question_.offloads.PieceOf(p, p + 1, false).first != piece.first) continue;
        question_.offloads.From(p, INT64_MAX, &from_);
        for (const Arc& arc : from_) {
          may_change_.push_back(question_.offloads.PieceOf(p, arc.to, arc.recomputed));
        }
        break;
      }
    }
    Piece other = piece;
    other.recomputed = !piece.recomputed;
    return std::ranges::find(may_change_, other) != may_change_.end();
  }

  absl::Status TryChanges() {
    if (!best_.has_value()) return absl::OkStatus();
    const int64_t end = simulated_ + kChangeWork;
    size_t unchanged = 0;
    for (size_t i = 0; unchanged < best_->plan.pieces.size(); ++i, ++unchanged) {
      const size_t piece = i % best_->plan.pieces.size();
      const double before = best_->seconds;
      for (const OffloadPlan& change : ChangesOf(best_->plan, piece)) {
        if (simulated_ > end) return absl::OkStatus();
        RETURN_IF_ERROR(Try(change).status());
      }
      if (best_->seconds < before) unchanged = 0;
    }
    return TryAll(best_->plan).status();
  }

  // Every plan whose bound is below the best so far.
  absl::Status Branch() {
    if (question_.offloads.positions() > kMostBranched) return absl::OkStatus();
    const PricedArcs arcs(question_.offloads, platform_, prices_);
    ASSIGN_OR_RETURN(const RemainingTime remaining,
                     RemainingTime::Of(arcs, question_.memory_bytes, context_));
    if (!remaining.Fits(1, arcs.start_bytes())) return absl::OkStatus();
    work_end_ = simulated_ + kBranchWork;
    OffloadPlan plan;
    RETURN_IF_ERROR(Extend(arcs, remaining, 1, arcs.start_bytes(), 0, &plan));
    const bool ended = visits_ <= kBranchVisits && simulated_ <= work_end_;
    if (ended && best_.has_value()) {
      least_seconds_ = std::max(least_seconds_, std::min(best_->seconds, plain_least_seconds_));
    }
    return absl::OkStatus();
  }

  absl::Status Extend(const PricedArcs& arcs, const RemainingTime& remaining, int position,
                      int64_t kept, int64_t ticks, OffloadPlan* plan) {
    if (++visits_ % 1024 == 0) RETURN_IF_ERROR(context_.CheckStop());
    if (visits_ > kBranchVisits || simulated_ > work_end_) return absl::OkStatus();
    if (position > arcs.positions()) return TryAll(*plan).status();
    std::vector<Arc> from;
    arcs.From(position, platform_.memory_bytes - kept, &from);
    for (const Arc& arc : from) {
      if (!remaining.FitsArc(arc, kept) || !remaining.Fits(arc.to, kept + arc.add)) continue;
      const int64_t least = ticks + arc.ticks + remaining.LeastTicks(arc.to, kept + arc.add);
      const double bound =
          FixedSeconds(prices_) + static_cast<double>(least) * arcs.seconds_per_tick();
      if (best_.has_value() && bound >= best_->seconds * (1 - kPrecision)) continue;
      plan->pieces.push_back(arcs.PieceOf(position, arc.to, arc.recomputed));
      plan->offloaded.push_back(arc.offloaded);
      RETURN_IF_ERROR(Extend(arcs, remaining, arc.to, kept + arc.add, ticks + arc.ticks, plan));
      plan->pieces.pop_back();
      plan->offloaded.pop_back();
    }
    return absl::OkStatus();
  }

  const OffloadQuestion& question_;
  const Chain& chain_;
  Platform platform_;
  const SolveContext& context_;
  const std::function<void(const FoundOffload&)>& improved_;
  double sweep_seconds_ = 0;
  double loss_seconds_ = 0;
  double backward_seconds_ = 0;

  std::optional<FoundOffload> best_;
  double least_seconds_ = 0;
  double plain_least_seconds_ = 1e300;  // of plans that offload nothing; none fits
  double raised_ = -1;                  // the highest bound
  CopyPrices prices_;                   // that it has
  int64_t simulated_ = 0;               // operations
  int64_t work_end_ = 0;
  int64_t visits_ = 0;
  int change_from_ = 0;
  std::vector<Piece> may_change_;
  std::vector<Arc> from_;
};

}  // namespace

absl::StatusOr<std::optional<FoundOffload>> FindFastestOffload(
    const OffloadQuestion& question, const SolveContext& context,
    const std::function<void(const FoundOffload&)>& improved) {
  // With a limit on host memory the search may find plans below the least memory that is reported.
  if (question.platform.host_memory_bytes > 0) {
    ASSIGN_OR_RETURN(const int64_t least, LeastOffloadBytes(question, context));
    if (question.memory_bytes < least) return std::optional<FoundOffload>();
  }
  return Finder(question, context, improved).Run();
}

absl::StatusOr<int64_t> LeastOffloadBytes(const OffloadQuestion& question,
                                          const SolveContext& context) {
  ASSIGN_OR_RETURN(const int64_t plain, LeastBytesOf(question.arcs, context));
  ASSIGN_OR_RETURN(const LeastOffload least, FindLeastOffload(question.offloads, context));
  if (least.plan.pieces.empty()) return plain;
  Platform platform = question.platform;
  platform.memory_bytes = least.memory_bytes;
  ASSIGN_OR_RETURN(const Simulation simulation,
                   Simulate(question.chain, platform, OffloadSchedule(question.chain, least.plan),
                            nullptr, context.stop));
  return simulation.feasible() ? std::min(plain, least.memory_bytes) : plain;
}

int64_t FindFastestOffloadBytes(int positions, int64_t arcs, int64_t max_bytes) {
  constexpr int64_t kBytesPerPosition = 4096;  // plans, schedules, simulations
  constexpr auto kArcBytes = static_cast<int64_t>(4 * sizeof(Arc));  // of branches, twice as many
  const int64_t others = FindLeastOffloadBytes(positions) + RemainingTime::WorkingBytes(positions) +
                         (positions + 2) * kBytesPerPosition + arcs * kArcBytes;
  return FindFastestPlanBytes(positions, std::max<int64_t>(0, max_bytes - others)) + others;
}

}  // namespace stowage
