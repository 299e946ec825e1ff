#include "solver/algorithms/pofo/pofo_relaxation.h"

#include <algorithm>

#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr int kFluidPoints = 128;
constexpr auto kInfeasible = static_cast<float>(PofoSteps::kInfeasible);

// Interpolates; where the upper neighbour is infeasible the lower one's value is used.
double Between(double low, double high, double share) {
  return PofoSteps::IsInfeasible(high) ? low : low + share * (high - low);
}

// The first of `count` points, which do not decrease, that exceeds `seconds`.
int FirstAbove(const float* points, int count, double seconds) {
  return static_cast<int>(std::upper_bound(points, points + count, seconds) - points);
}

}  // namespace

double PofoRelaxation::Successors::ValueAt(double kept_load, double offloaded_load) const {
  return std::min(keep.ValueAt(kept_load), offload.ValueAt(offloaded_load));
}

double PofoRelaxation::Line::ValueAt(double bytes) const {
  // Clamped before the conversion: a load far beyond the axis does not fit an int.
  const double at = std::clamp(bytes * points_per_byte, 0.0, last + 1.0);
  const int low = std::min(static_cast<int>(at), last);
  return Between(points[low], points[low + 1], at - low);
}

double PofoRelaxation::Strip::ValueAt(double bytes) const {
  if (!feasible) return PofoSteps::kInfeasible;
  const double here = low.ValueAt(bytes);
  return share == 0 ? here : Between(here, high.ValueAt(bytes), share);
}

void PofoRelaxation::FillScales(PofoPosition at) {
  const size_t row = Row(at);
  const double room = Room(at, 0);
  fluid_scales_[row] = room > 0 ? (kFluidPoints - 1) / room : 0;
  for (int point = 0; point < kept_points_; ++point) {
    const double beside = Room(at, KeptAt(row, point));
    grid_scales_[row * static_cast<size_t>(kept_points_) + static_cast<size_t>(point)] =
        beside > 0 ? (moving_points_ - 1) / beside : 0;
  }
}

// A row at one value of A, as a function of ΔF or ΔB from 0 to Room().
PofoRelaxation::Line PofoRelaxation::GridLine(const std::vector<float>& points, size_t row,
                                              int kept_point) const {
  const size_t line = row * static_cast<size_t>(kept_points_) + static_cast<size_t>(kept_point);
  return {&points[line * static_cast<size_t>(moving_points_)], grid_scales_[line],
          moving_points_ - 2};
}

// The row of `at` as a function of y from 0 to Room() beside I.
PofoRelaxation::Line PofoRelaxation::FluidLine(const std::vector<float>& points,
                                               PofoPosition at) const {
  return {&points[Row(at) * kFluidPoints], fluid_scales_[Row(at)], kFluidPoints - 2};
}

// The two lines of the grid between which `kept` lies on the axis A; infeasible beyond MostKept().
PofoRelaxation::Strip PofoRelaxation::StripAt(const std::vector<float>& points, PofoPosition at,
                                              double kept) const {
  const auto most = static_cast<double>(MostKept(at));
  if (kept > most) return {};
  const double point = most > 0 ? kept / most * (kept_points_ - 1) : 0;
  const int low = std::min(static_cast<int>(point), kept_points_ - 2);
  const size_t row = Row(at);
  return {GridLine(points, row, low), GridLine(points, row, low + 1), point - low, true};
}

// The larger of the two phases' values: a plan loses at least the time that either phase loses.
double PofoRelaxation::Fluid(PofoPosition at, const PofoLoad& load) const {
  const auto kept = static_cast<double>(load.kept);
  return std::max(FluidLine(fluid_leaving_, at).ValueAt(kept + load.leaving),
                  FluidLine(fluid_returning_, at).ValueAt(kept + load.returning));
}

double PofoRelaxation::Grid(PofoPosition at, const PofoLoad& load) const {
  const auto kept = static_cast<double>(load.kept);
  return std::max(StripAt(leaving_, at, kept).ValueAt(load.leaving),
                  StripAt(returning_, at, kept).ValueAt(load.returning));
}

PofoRelaxation::PofoRelaxation(const PofoSteps& steps, const Options& options)
    : steps_(steps),
      loss_(steps.loss()),
      memory_(steps.memory_bytes()),
      limit_(options.limit_seconds),
      kept_points_(std::max(2, options.kept_points)),
      moving_points_(std::max(2, options.moving_points)),
      max_kept_(Row({loss_ + 1, 0}), -1),
      leaving_(Begin(Row({loss_ + 1, 0}), 0), kInfeasible),
      returning_(leaving_),
      grid_scales_(max_kept_.size() * static_cast<size_t>(kept_points_)),
      fluid_scales_(max_kept_.size()),
      least_leaving_(max_kept_.size(), kInfeasible),
      least_returning_(least_leaving_),
      fluid_leaving_(Row({loss_ + 1, 0}) * kFluidPoints, kInfeasible),
      fluid_returning_(fluid_leaving_) {}

absl::StatusOr<PofoRelaxation> PofoRelaxation::Build(const PofoSteps& steps, const Options& options,
                                                     const SolveContext& context) {
  PofoRelaxation relaxation(steps, options);
  // By falling i: a part [i..j] reads the rows of stage j+1.
  for (int i = steps.loss(); i >= 1; --i) {
    RETURN_IF_ERROR(context.CheckStop());
    steps.ListParts(i, options.limit_seconds, &relaxation.parts_);
    for (int x = 0; x <= (i > 1 ? 1 : 0); ++x) {  // value 0 has one form
      const PofoPosition at{i, x};
      relaxation.FillMostKept(at);
      if (relaxation.MostKept(at) < 0) continue;
      relaxation.FillScales(at);
      relaxation.FillFluid(at);
      relaxation.FillGrid(at);
      relaxation.FillLeast(at);
    }
  }
  return relaxation;
}

// MostKept(i,x) = max over parts of min(M - I - need, MostKept(j+1,x') - (I where it must be
// kept)), with need that of forwards, recomputation and backwards.
void PofoRelaxation::FillMostKept(PofoPosition at) {
  const int64_t input = steps_.InputBytes(at);
  const int64_t keeps = steps_.MayOffload(at.i - 1) ? 0 : input;
  int64_t& most = max_kept_[Row(at)];
  const auto raise = [&](const PofoStep& step, int64_t need) {
    const int64_t after = step.last == loss_ ? memory_ : MostKept(After(step)) - keeps;
    most = std::max(most, std::min(memory_ - input - need, after));
  };
  const PofoStep save = steps_.SaveStep(at.i);
  raise(save, std::max(save.forward_need, save.backward_need));
  for (const PofoPart& part : parts_) {
    // The need only grows with j, so a longer part cannot raise the value either.
    if (memory_ - input - part.step.forward_need <= most) break;
    raise(part.step, std::max(part.step.forward_need, part.least_need));
  }
}

double PofoRelaxation::LeastFluid(PofoPosition at) const {
  const size_t first = Row(at) * kFluidPoints;
  return std::max(fluid_leaving_[first], fluid_returning_[first]);
}

double PofoRelaxation::LeastGrid(PofoPosition at) const {
  return std::max(least_leaving_[Row(at)], least_returning_[Row(at)]);
}

// Whether the part and what follows it lose too much in both phases, whatever the load. It saves
// most parts the look at their recomputations.
bool PofoRelaxation::FluidLoses(const PofoPart& part) const {
  const size_t next = Row(After(part.step)) * kFluidPoints;
  return part.least_seconds + std::min(fluid_leaving_[next], fluid_returning_[next]) >= limit_;
}

bool PofoRelaxation::GridLoses(const PofoPart& part) const {
  const size_t next = Row(After(part.step));
  return part.least_seconds + std::min(least_leaving_[next], least_returning_[next]) >= limit_;
}

void PofoRelaxation::FillLeast(PofoPosition at) {
  const size_t row = Row(at);
  for (int point = 0; point < kept_points_; ++point) {
    // The first point of a line is its least.
    least_leaving_[row] = std::min(least_leaving_[row], leaving_[Begin(row, point)]);
    least_returning_[row] = std::min(least_returning_[row], returning_[Begin(row, point)]);
  }
}

// R(i,x,·) of the fluid relaxation, for both phases: the minimum over saving stage i and over all
// parts [i..j] to recompute. The rows of later stages are final.
void PofoRelaxation::FillFluid(PofoPosition at) {
  const int64_t input = steps_.InputBytes(at);
  const int64_t free = memory_ - input;
  // Save stage i.
  const PofoStep save = steps_.SaveStep(at.i);
  if (std::max(save.forward_need, save.backward_need) <= free) {
    LowerFluidLeaving(at, save, 0);
    LowerFluidReturning(at, save, 0);
  }
  // Recompute part [i..j].
  for (const PofoPart& part : parts_) {
    const PofoStep& step = part.step;
    if (step.forward_need > free) break;
    if (part.least_need > free || FluidLoses(part)) continue;
    const double recompute_seconds =
        steps_.RecomputationsOf({at.i, step.last}, input).Fastest(0).seconds;
    LowerFluidLeaving(at, step, recompute_seconds);
    LowerFluidReturning(at, step, recompute_seconds);
  }
}

// Forward phase, y = A + ΔF: the part waits until its forwards fit, and the link carries bytes
// throughout, kept ones included.
void PofoRelaxation::LowerFluidLeaving(PofoPosition at, const PofoStep& step,
                                       double recompute_seconds) {
  float* const row = &fluid_leaving_[Row(at) * kFluidPoints];
  const auto input = static_cast<double>(steps_.InputBytes(at));
  const double room = Room(at, 0);
  const bool ends = step.last == loss_;
  const bool may_offload = steps_.MayOffload(at.i - 1);
  const Line next = ends ? Line{} : FluidLine(fluid_leaving_, After(step));
  const double least = recompute_seconds + (ends ? 0 : next.ValueAt(0));
  if (least >= limit_) return;
  for (int p = FirstAbove(row, kFluidPoints, least); p < kFluidPoints; ++p) {
    const double y = room * p / (kFluidPoints - 1);
    const double wait = steps_.OffloadSeconds(step.late_need - room + y);
    if (least + wait >= row[p]) continue;
    const double left = steps_.OffloadedIn(step.forward_seconds + wait);
    const double y_after = may_offload ? y + input - left : std::max(0.0, y - left) + input;
    const double rest = ends ? 0 : next.ValueAt(y_after);
    row[p] = static_cast<float>(std::min<double>(row[p], recompute_seconds + wait + rest));
  }
}

// Backward phase, y = A + ΔB: the part's backward, with its recomputation, ends late enough for the
// bytes that have to return until then.
void PofoRelaxation::LowerFluidReturning(PofoPosition at, const PofoStep& step,
                                         double recompute_seconds) {
  float* const row = &fluid_returning_[Row(at) * kFluidPoints];
  const int64_t input_bytes = steps_.InputBytes(at);
  const auto input = static_cast<double>(input_bytes);
  const double room = Room(at, 0);
  const bool ends = step.last == loss_;
  const Line next = ends ? Line{} : FluidLine(fluid_returning_, After(step));
  // Without anything to return the part and what follows lose no less.
  const double least_rest = ends ? 0 : next.ValueAt(0);
  const double least = recompute_seconds + least_rest;
  const int first = least < limit_ ? FirstAbove(row, kFluidPoints, least) : kFluidPoints;
  if (first == kFluidPoints) return;
  PofoSteps::Recomputations recomputations;
  if (!step.saved) recomputations = steps_.RecomputationsOf({at.i, step.last}, input_bytes);
  for (int p = first; p < kFluidPoints; ++p) {
    if (least >= row[p]) continue;
    const double y = room * p / (kFluidPoints - 1);
    double lost = steps_.PrefetchSeconds(static_cast<double>(step.backward_need) - room + y);
    if (!step.saved) {
      lost = recomputations.Fastest(y).seconds;
    }
    if (lost + least_rest >= row[p]) continue;
    const double seconds = lost + (step.saved ? steps_.chain().stage(at.i).backward_seconds
                                              : steps_.BackwardSeconds(at.i, step.last));
    const double y_before = std::max(0.0, y - steps_.PrefetchedIn(seconds)) + input;
    const double rest = ends ? 0 : next.ValueAt(y_before);
    row[p] = static_cast<float>(std::min<double>(row[p], lost + rest));
  }
}

// R(i,x,A,·) of the grid relaxation, for both phases and every value of A.
void PofoRelaxation::FillGrid(PofoPosition at) {
  const size_t index = Row(at);
  const int worst = moving_points_ - 1;  // the point of the largest load has the largest value
  for (int point = 0; point < kept_points_; ++point) {
    const auto kept = static_cast<int64_t>(KeptAt(index, point));
    const int64_t free = memory_ - kept - steps_.InputBytes(at);
    float* const leaving = &leaving_[Begin(index, point)];
    float* const returning = &returning_[Begin(index, point)];
    // Save stage i.
    const PofoStep save = steps_.SaveStep(at.i);
    if (std::max(save.forward_need, save.backward_need) <= free) {
      LowerLeaving({at, kept, save}, leaving);
      LowerReturning({at, kept, save}, returning);
    }
    // Recompute part [i..j].
    for (const PofoPart& part : parts_) {
      const PofoStep& step = part.step;
      if (step.forward_need > free) break;
      // The part alone, and so every longer one, costs more than the worst point of both rows.
      if (step.forward_seconds >= std::max(leaving[worst], returning[worst])) break;
      if (part.least_need > free || GridLoses(part)) continue;
      const size_t next = Row(After(step));
      const double recompute_seconds =
          steps_.RecomputationsOf({at.i, step.last}, kept + steps_.InputBytes(at))
              .Fastest(0)
              .seconds;
      const GridStep grid_step{at, kept, step, recompute_seconds};
      if (recompute_seconds + least_leaving_[next] < leaving[worst]) {
        LowerLeaving(grid_step, leaving);
      }
      if (recompute_seconds + least_returning_[next] < returning[worst]) {
        LowerReturning(grid_step, returning);
      }
    }
  }
}

PofoRelaxation::Successors PofoRelaxation::SuccessorsOf(const GridStep& grid_step,
                                                        const std::vector<float>& points) const {
  if (grid_step.step.last == loss_) return {};
  const PofoPosition next = After(grid_step.step);
  const auto kept = static_cast<double>(grid_step.kept);
  const auto input = static_cast<double>(steps_.InputBytes(grid_step.at));
  Successors successors{.keep = StripAt(points, next, kept + input)};
  if (steps_.MayOffload(grid_step.at.i - 1)) successors.offload = StripAt(points, next, kept);
  return successors;
}

// Forward phase at fixed A: εF = [max_k(..) - mem + ΔF]+ / βo is lost, then ΔF' = ΔF - DF, plus I
// where that is offloaded. At the loss the rest of ΔF is lost as well.
void PofoRelaxation::LowerLeaving(const GridStep& grid_step, float* row) const {
  const PofoStep& step = grid_step.step;
  const double room = Room(grid_step.at, static_cast<double>(grid_step.kept));
  const bool ends = step.last == loss_;
  const Successors successors = SuccessorsOf(grid_step, leaving_);
  const double input_load = steps_.OffloadLoad(steps_.InputBytes(grid_step.at));
  const double least = grid_step.recompute_seconds + (ends ? 0 : successors.ValueAt(0, 0));
  if (least >= limit_) return;
  for (int p = FirstAbove(row, moving_points_, least); p < moving_points_; ++p) {
    if (least >= row[p]) continue;
    const double leaving = room * p / (moving_points_ - 1);
    if (leaving > 0 && !steps_.has_link()) break;
    const double wait = steps_.OffloadSeconds(step.late_need - room + leaving);
    if (wait + least >= row[p]) continue;
    const double left_over = leaving - steps_.OffloadedIn(step.forward_seconds + wait);
    const double rest = ends ? steps_.OffloadSeconds(left_over)
                             : successors.ValueAt(left_over, left_over + input_load);
    row[p] =
        static_cast<float>(std::min<double>(row[p], wait + grid_step.recompute_seconds + rest));
  }
}

// Backward phase at fixed A: εB, or C_Δ less the backwards, is lost, then ΔB' = [ΔB - DB]+, plus I
// where that has to return for this part. At the loss the rest of ΔB is lost as well.
void PofoRelaxation::LowerReturning(const GridStep& grid_step, float* row) const {
  const PofoPosition at = grid_step.at;
  const PofoStep& step = grid_step.step;
  const double room = Room(at, static_cast<double>(grid_step.kept));
  const bool ends = step.last == loss_;
  const Successors successors = SuccessorsOf(grid_step, returning_);
  const double input_load = steps_.PrefetchLoad(steps_.InputBytes(at));
  const double least_rest = ends ? 0 : successors.ValueAt(0, 0);
  const double least = grid_step.recompute_seconds + least_rest;
  const int first = least < limit_ ? FirstAbove(row, moving_points_, least) : moving_points_;
  if (first == moving_points_) return;
  PofoSteps::Recomputations recomputations;
  if (!step.saved) {
    recomputations =
        steps_.RecomputationsOf({at.i, step.last}, grid_step.kept + steps_.InputBytes(at));
  }
  for (int p = first; p < moving_points_; ++p) {
    if (least >= row[p]) continue;
    const double returning = room * p / (moving_points_ - 1);
    if (returning > 0 && !steps_.has_link()) break;
    double lost = 0;
    double seconds = 0;
    if (step.saved) {
      lost = steps_.PrefetchSeconds(static_cast<double>(step.backward_need) - room + returning);
      seconds = steps_.chain().stage(at.i).backward_seconds + lost;
    } else {
      lost = recomputations.Fastest(returning).seconds;
      seconds = lost + steps_.BackwardSeconds(at.i, step.last);
    }
    if (lost + least_rest >= row[p]) continue;
    const double left_over = returning - steps_.PrefetchedIn(seconds);
    const double rest = ends ? steps_.PrefetchSeconds(left_over)
                             : successors.ValueAt(left_over, std::max(0.0, left_over) + input_load);
    row[p] = static_cast<float>(std::min<double>(row[p], lost + rest));
  }
}

}  // namespace stowage
