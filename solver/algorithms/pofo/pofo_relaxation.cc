#include "solver/algorithms/pofo/pofo_relaxation.h"

#include <algorithm>

#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr int kFluidPoints = 128;
constexpr auto kInfeasible = static_cast<float>(PofoSteps::kNoWay);

// Between two points; beyond what is feasible the nearer one has to do.
double Between(double low, double high, double share) {
  return PofoSteps::IsNoWay(high) ? low : low + share * (high - low);
}

}  // namespace

double PofoRelaxation::Line::At(double bytes) const {
  // What is far beyond the last point is no number of points that an int could hold.
  const double at = std::clamp(bytes * points_per_byte, 0.0, last + 1.0);
  const int low = std::min(static_cast<int>(at), last);
  return Between(points[low], points[low + 1], at - low);
}

double PofoRelaxation::Strip::At(double bytes) const {
  if (!feasible) return PofoSteps::kNoWay;
  const double here = low.At(bytes);
  return share == 0 ? here : Between(here, high.At(bytes), share);
}

PofoRelaxation::Line PofoRelaxation::LineAt(const std::vector<float>& points, int i, int x,
                                            int kept_point) const {
  const size_t row = Row(i, x);
  const double room = Room(i, x, KeptAt(row, kept_point));
  return {&points[Begin(row, kept_point)], room > 0 ? (moving_points_ - 1) / room : 0,
          moving_points_ - 2};
}

PofoRelaxation::Line PofoRelaxation::FluidAt(const std::vector<float>& points, int i, int x) const {
  const double room = Room(i, x, 0);
  return {&points[Row(i, x) * kFluidPoints], room > 0 ? (kFluidPoints - 1) / room : 0,
          kFluidPoints - 2};
}

PofoRelaxation::Strip PofoRelaxation::StripAt(const std::vector<float>& points, int i, int x,
                                              double kept) const {
  const auto most = static_cast<double>(most_[Row(i, x)]);
  if (kept > most) return {};
  const double at = most > 0 ? kept / most * (kept_points_ - 1) : 0;
  const int low = std::min(static_cast<int>(at), kept_points_ - 2);
  return {LineAt(points, i, x, low), LineAt(points, i, x, low + 1), at - low, true};
}

double PofoRelaxation::Fluid(int i, int x, const PofoLoad& load) const {
  const auto kept = static_cast<double>(load.kept);
  return std::max(FluidAt(fluid_leaving_, i, x).At(kept + load.leaving),
                  FluidAt(fluid_returning_, i, x).At(kept + load.returning));
}

double PofoRelaxation::Grid(int i, int x, const PofoLoad& load) const {
  const auto kept = static_cast<double>(load.kept);
  return std::max(StripAt(leaving_, i, x, kept).At(load.leaving),
                  StripAt(returning_, i, x, kept).At(load.returning));
}

PofoRelaxation::PofoRelaxation(const PofoSteps& steps, const Options& options)
    : steps_(steps),
      loss_(steps.loss()),
      memory_(steps.memory_bytes()),
      limit_(options.limit_seconds),
      kept_points_(std::max(2, options.kept_points)),
      moving_points_(std::max(2, options.moving_points)),
      most_(Row(loss_ + 1, 0), -1),
      leaving_(Begin(Row(loss_ + 1, 0), 0), kInfeasible),
      returning_(leaving_),
      fluid_leaving_(Row(loss_ + 1, 0) * kFluidPoints, kInfeasible),
      fluid_returning_(fluid_leaving_) {}

absl::StatusOr<PofoRelaxation> PofoRelaxation::Build(const PofoSteps& steps, const Options& options,
                                                     const SolveContext& context) {
  PofoRelaxation relaxation(steps, options);
  for (int i = steps.loss(); i >= 1; --i) {
    RETURN_IF_ERROR(context.CheckStop());
    for (int x = 0; x <= (i > 1 ? 1 : 0); ++x) {
      relaxation.FillMost(i, x);
      if (relaxation.Most(i, x) < 0) continue;
      relaxation.FillFluid(i, x);
      relaxation.FillGrid(i, x);
    }
  }
  return relaxation;
}

// The most that may be kept for good before stage i, whatever the time: with more no way leads on.
void PofoRelaxation::FillMost(int i, int x) {
  const int64_t input = steps_.Input(i, x);
  const int64_t keeps = steps_.MayMove(i - 1) ? 0 : input;
  int64_t& most = most_[Row(i, x)];
  const auto lift = [&](const PofoStep& step, int64_t need) {
    const int64_t after =
        step.last == loss_ ? memory_ : most_[Row(step.last + 1, step.saved ? 1 : 0)] - keeps;
    most = std::max(most, std::min(memory_ - input - need, after));
  };
  const PofoStep save = steps_.SaveStep(i);
  lift(save, std::max(save.need, save.back_need));
  PofoStep step;
  for (int j = i; j < loss_; ++j) {
    if (!steps_.Extend(j, i, limit_, &step) || memory_ - input - step.need <= most) break;
    const int64_t again = steps_.LeastAgainBytes(i, j);
    if (again < INT64_MAX) lift(step, std::max(step.need, again));
  }
}

void PofoRelaxation::FillFluid(int i, int x) {
  const int64_t free = memory_ - steps_.Input(i, x);
  const PofoStep save = steps_.SaveStep(i);
  if (std::max(save.need, save.back_need) <= free) LowerFluid(i, x, save, 0);
  PofoStep step;
  for (int j = i; j < loss_; ++j) {
    if (!steps_.Extend(j, i, limit_, &step) || step.need > free) break;
    int32_t unused = -1;
    const double again = steps_.AgainSeconds(i, j, steps_.Input(i, x), 0, &unused);
    if (!PofoSteps::IsNoWay(again)) LowerFluid(i, x, step, again);
  }
}

// In either phase whatever is on the device may be gone while the link is free, kept or not.
void PofoRelaxation::LowerFluid(int i, int x, const PofoStep& step, double again) {
  float* const leaving = &fluid_leaving_[Row(i, x) * kFluidPoints];
  float* const returning = &fluid_returning_[Row(i, x) * kFluidPoints];
  const auto input = static_cast<double>(steps_.Input(i, x));
  const double room = Room(i, x, 0);
  const bool ends = step.last == loss_;
  const bool may_move = steps_.MayMove(i - 1);
  const int next_x = step.saved ? 1 : 0;
  const Line next_leaving = ends ? Line{} : FluidAt(fluid_leaving_, step.last + 1, next_x);
  const Line next_returning = ends ? Line{} : FluidAt(fluid_returning_, step.last + 1, next_x);
  for (int p = 0; p < kFluidPoints; ++p) {
    const double there = room * p / (kFluidPoints - 1);
    const double wait = steps_.OutSeconds(step.late_need - room + there);
    if (again + wait < leaving[p]) {
      const double left = steps_.OutWithin(step.forward_seconds + wait);
      const double after = may_move ? there + input - left : std::max(0.0, there - left) + input;
      const double rest = ends ? 0 : next_leaving.At(after);
      leaving[p] = static_cast<float>(std::min<double>(leaving[p], again + wait + rest));
    }
    if (again >= returning[p]) continue;
    double lost = steps_.InSeconds(static_cast<double>(step.back_need) - room + there);
    if (!step.saved) {
      int32_t unused = -1;
      lost = steps_.AgainSeconds(i, step.last, steps_.Input(i, x), there, &unused);
    }
    const double seconds = lost + (step.saved ? steps_.chain().stage(i).backward_seconds
                                              : steps_.BackwardSeconds(i, step.last));
    const double before = std::max(0.0, there - steps_.InWithin(seconds)) + input;
    const double rest = ends ? 0 : next_returning.At(before);
    returning[p] = static_cast<float>(std::min<double>(returning[p], lost + rest));
  }
}

void PofoRelaxation::FillGrid(int i, int x) {
  const size_t index = Row(i, x);
  for (int point = 0; point < kept_points_; ++point) {
    const auto kept = static_cast<int64_t>(KeptAt(index, point));
    const int64_t free = memory_ - kept - steps_.Input(i, x);
    float* const leaving = &leaving_[Begin(index, point)];
    float* const returning = &returning_[Begin(index, point)];
    const PofoStep save = steps_.SaveStep(i);
    if (std::max(save.need, save.back_need) <= free) {
      LowerLeaving(i, x, save, kept, 0, leaving);
      LowerReturning(i, x, save, kept, returning);
    }
    PofoStep step;
    for (int j = i; j < loss_; ++j) {
      if (!steps_.Extend(j, i, limit_, &step) || step.need > free) break;
      // Even by itself the part costs more than the worst of these states.
      const int worst = moving_points_ - 1;
      if (step.forward_seconds >= std::max(leaving[worst], returning[worst])) break;
      int32_t unused = -1;
      const double again = steps_.AgainSeconds(i, j, kept + steps_.Input(i, x), 0, &unused);
      if (PofoSteps::IsNoWay(again)) continue;
      if (again < leaving[worst]) LowerLeaving(i, x, step, kept, again, leaving);
      if (again < returning[worst]) LowerReturning(i, x, step, kept, returning);
    }
  }
}

PofoRelaxation::After PofoRelaxation::AfterStep(const std::vector<float>& points, int i, int x,
                                                const PofoStep& step, int64_t kept) const {
  if (step.last == loss_) return {};
  const int next_x = step.saved ? 1 : 0;
  const auto stays = static_cast<double>(kept);
  const auto input = static_cast<double>(steps_.Input(i, x));
  After after{.keep = StripAt(points, step.last + 1, next_x, stays + input)};
  if (steps_.MayMove(i - 1)) after.move = StripAt(points, step.last + 1, next_x, stays);
  return after;
}

void PofoRelaxation::LowerLeaving(int i, int x, const PofoStep& step, int64_t kept, double again,
                                  float* row) const {
  const double room = Room(i, x, static_cast<double>(kept));
  const bool ends = step.last == loss_;
  const After after = AfterStep(leaving_, i, x, step, kept);
  const double move_bytes = steps_.OutBytes(steps_.Input(i, x));
  for (int p = 0; p < moving_points_; ++p) {
    if (again >= row[p]) continue;
    const double leaving = room * p / (moving_points_ - 1);
    if (leaving > 0 && !steps_.moves()) break;
    const double wait = steps_.OutSeconds(step.late_need - room + leaving);
    const double rest_at = leaving - steps_.OutWithin(step.forward_seconds + wait);
    const double rest = ends
                            ? steps_.OutSeconds(rest_at)
                            : std::min(after.keep.At(rest_at), after.move.At(rest_at + move_bytes));
    row[p] = static_cast<float>(std::min<double>(row[p], wait + again + rest));
  }
}

void PofoRelaxation::LowerReturning(int i, int x, const PofoStep& step, int64_t kept,
                                    float* row) const {
  const double room = Room(i, x, static_cast<double>(kept));
  const bool ends = step.last == loss_;
  const After after = AfterStep(returning_, i, x, step, kept);
  const double move_bytes = steps_.InBytes(steps_.Input(i, x));
  for (int p = 0; p < moving_points_; ++p) {
    const double returning = room * p / (moving_points_ - 1);
    if (returning > 0 && !steps_.moves()) break;
    double lost = 0;
    double seconds = 0;
    if (step.saved) {
      lost = steps_.InSeconds(static_cast<double>(step.back_need) - room + returning);
      seconds = steps_.chain().stage(i).backward_seconds + lost;
    } else {
      int32_t unused = -1;
      lost = steps_.AgainSeconds(i, step.last, kept + steps_.Input(i, x), returning, &unused);
      seconds = lost + steps_.BackwardSeconds(i, step.last);
    }
    if (lost >= row[p]) continue;
    const double rest_at = returning - steps_.InWithin(seconds);
    const double rest =
        ends ? steps_.InSeconds(rest_at)
             : std::min(after.keep.At(rest_at), after.move.At(std::max(0.0, rest_at) + move_bytes));
    row[p] = static_cast<float>(std::min<double>(row[p], lost + rest));
  }
}

}  // namespace stowage
