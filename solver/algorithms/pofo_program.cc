#include "solver/algorithms/pofo_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr double kNoWay = 1e30;  // seconds; survives additions

constexpr int kFluidPoints = 128;
// States that differ by less, in shares of the memory and of a step, are alike: one of them in the
// beam is enough.
constexpr double kAlikeBytes = 0.005;
constexpr double kAlikeSeconds = 5e-5;
// Plans that lose this much more than the best so far are not looked for.
constexpr double kWorthMore = 1.05;

bool IsNoWay(double seconds) { return seconds >= kNoWay / 2; }

// Between two points; beyond what is feasible the nearer one has to do.
double Between(double low, double high, double share) {
  return IsNoWay(high) ? low : low + share * (high - low);
}

// Along a row of points that are evenly spaced from 0 on.
struct Line {
  const float* points = nullptr;
  double points_per_byte = 0;
  int last = 0;  // the last point but one

  double At(double bytes) const {
    const double at = std::max(0.0, bytes) * points_per_byte;
    const int low = std::min(static_cast<int>(at), last);
    return Between(points[low], points[low + 1], std::min(1.0, at - low));
  }
};

// Between two such lines.
struct Strip {
  Line low;
  Line high;
  double share = 0;  // of the way to the high one
  bool feasible = false;

  double At(double bytes) const {
    if (!feasible) return kNoWay;
    const double here = low.At(bytes);
    return share == 0 ? here : Between(here, high.At(bytes), share);
  }
};

}  // namespace

// One search: the relaxations, then the beam. Stages and values as in the header.
class PofoSearch {
 public:
  PofoSearch(const PofoProgram& program, const PofoProgram::Options& options)
      : chain_(program.chain_),
        platform_(program.platform_),
        sequences_(program.sequences_),
        options_(options),
        last_(chain_.length() + 1),
        memory_(options.memory_bytes),
        out_rate_(platform_.offload_bytes_per_second),
        in_rate_(platform_.prefetch_rate()),
        moves_(platform_.has_link()),
        limit_(options.most_lost_seconds),
        kept_points_(std::max(2, options.kept_points)),
        moving_points_(std::max(2, options.moving_points)),
        alike_bytes_(static_cast<int64_t>(kAlikeBytes * static_cast<double>(memory_))),
        alike_seconds_(kAlikeSeconds * chain_.ComputeSeconds()) {
    for (int l = 1; l <= last_; ++l) {
      const Stage& stage = chain_.stage(l);
      const int64_t gradients = chain_.gradient_bytes(l) + chain_.gradient_bytes(l - 1);
      save_need_.push_back(stage.saved_bytes + stage.forward_overhead_bytes);
      back_need_.push_back(stage.saved_bytes + gradients + stage.backward_overhead_bytes);
    }
  }

  absl::StatusOr<std::vector<RelaxedPlan>> Run(const SolveContext& context) {
    std::vector<RelaxedPlan> plans;
    RETURN_IF_ERROR(Relax(context));
    for (const Guide guide : {Guide::kFluid, Guide::kGrid}) {
      guide_ = guide;
      for (const double penalty : options_.offload_penalties) {
        penalty_ = penalty;
        RETURN_IF_ERROR(Search(context));
        if (end_ < 0) continue;
        plans.push_back(Backtrack());
        limit_ = std::min(limit_, kWorthMore * end_lost_ + alike_seconds_);
      }
    }
    return plans;
  }

 private:
  // Which relaxation says what a state promises.
  enum class Guide { kFluid, kGrid };

  // How a part that begins with stage i and value i-1 goes on: all that does not depend on the
  // state. `need` and `late_need` count the kept input apart.
  struct Step {
    int last = 0;
    bool saved = false;
    double forward_seconds = 0;
    int64_t need = 0;       // of the most demanding forward
    double late_need = 0;   // the same, less what can leave before it
    int64_t back_need = 0;  // saved: of its backward
  };
  // Before stage i.
  struct Label {
    double lost = 0;       // g
    double bound = 0;      // g and the relaxations of the rest
    double order = 0;      // the same, and a little for what is moved: the most promising is least
    int64_t kept = 0;      // A
    double leaving = 0;    // ΔF
    double returning = 0;  // ΔB
    int64_t host = 0;
    double moved = 0;     // seconds of copying to the host
    int32_t parent = -1;  // in labels_
    int32_t sequence = -1;
    int16_t first = 0;  // of the part that led here
    bool saved = false;
    bool offloaded = false;
  };

  int64_t Input(int i, int x) const {
    if (i == 1) return chain_.input_bytes;
    return x == 1 ? chain_.saved_bytes(i - 1) : chain_.output_bytes(i - 1);
  }
  bool MayMove(int value) const {
    return moves_ && (value == 0 || !chain_.stage(value).no_offload);
  }
  double OutBytes(int64_t bytes) const {
    return static_cast<double>(bytes) + platform_.transfer_latency_seconds * out_rate_;
  }
  double InBytes(int64_t bytes) const {
    return static_cast<double>(bytes) + platform_.transfer_latency_seconds * in_rate_;
  }
  // The time in which `bytes` leave, or return; nothing has to where there is no link.
  double OutSeconds(double bytes) const { return bytes > 0 && moves_ ? bytes / out_rate_ : 0; }
  double InSeconds(double bytes) const { return bytes > 0 && moves_ ? bytes / in_rate_ : 0; }

  Step SaveStep(int i) const {
    const auto index = static_cast<size_t>(i - 1);
    return {i,
            true,
            chain_.stage(i).forward_seconds,
            save_need_[index],
            static_cast<double>(save_need_[index]),
            back_need_[index]};
  }
  // Lengthens the part by stage j; false when it may not hold it.
  bool Extend(int j, Step* step, int first) const {
    const Stage& stage = chain_.stage(j);
    if (j == last_ || stage.no_recompute) return false;
    const int64_t input = j == first ? 0 : chain_.output_bytes(j - 1);
    const int64_t need = input + stage.output_bytes + stage.forward_overhead_bytes;
    const double late = static_cast<double>(need) - out_rate_ * step->forward_seconds;
    step->last = j;
    step->need = std::max(step->need, need);
    step->late_need = j == first ? late : std::max(step->late_need, late);
    step->forward_seconds += stage.forward_seconds;
    return step->forward_seconds < limit_;
  }

  double BackwardSeconds(int first, int last) const {
    return sequences_.StepSeconds(first - 1, last - 1) -
           sequences_.ForwardSeconds(first - 1, last - 1);
  }
  // C_Δ, less one backward of each stage; kNoWay when nothing fits. `kept` includes I.
  double AgainSeconds(int first, int last, int64_t kept, double returning, int32_t* sequence) const;

  absl::Status Relax(const SolveContext& context);
  void FillMost(int i, int x);
  void FillFluid(int i, int x);
  void LowerFluid(int i, int x, const Step& step, double again);
  void FillGrid(int i, int x);
  void LowerLeaving(int i, int x, const Step& step, int64_t kept, double again, float* row) const;
  void LowerReturning(int i, int x, const Step& step, int64_t kept, float* row) const;
  size_t Row(int i, int x) const { return static_cast<size_t>((i - 1) * 2 + x); }
  // The points of one row and one amount kept.
  size_t Begin(size_t row, int kept_point) const {
    return (row * static_cast<size_t>(kept_points_) + static_cast<size_t>(kept_point)) *
           static_cast<size_t>(moving_points_);
  }
  // A goes from 0 to the most that is feasible, ΔF or ΔB from 0 to what memory has room for then.
  double KeptAt(size_t row, int point) const {
    return static_cast<double>(most_[row]) * point / (kept_points_ - 1);
  }
  double Room(int i, int x, double kept) const {
    return static_cast<double>(memory_ - Input(i, x)) - kept;
  }
  Line LineAt(const std::vector<float>& points, int i, int x, int kept_point) const {
    const size_t row = Row(i, x);
    const double room = Room(i, x, KeptAt(row, kept_point));
    return {&points[Begin(row, kept_point)], room > 0 ? (moving_points_ - 1) / room : 0,
            moving_points_ - 2};
  }
  Line FluidAt(const std::vector<float>& points, int i, int x) const {
    const double room = Room(i, x, 0);
    return {&points[Row(i, x) * kFluidPoints], room > 0 ? (kFluidPoints - 1) / room : 0,
            kFluidPoints - 2};
  }
  double Promise(int i, int x, const Label& label) const {
    const auto kept = static_cast<double>(label.kept);
    if (guide_ == Guide::kFluid) {
      return std::max(FluidAt(fluid_leaving_, i, x).At(kept + label.leaving),
                      FluidAt(fluid_returning_, i, x).At(kept + label.returning));
    }
    return std::max(StripAt(leaving_, i, x, kept).At(label.leaving),
                    StripAt(returning_, i, x, kept).At(label.returning));
  }
  Strip StripAt(const std::vector<float>& points, int i, int x, double kept) const {
    const auto most = static_cast<double>(most_[Row(i, x)]);
    if (kept > most) return {};
    const double at = most > 0 ? kept / most * (kept_points_ - 1) : 0;
    const int low = std::min(static_cast<int>(at), kept_points_ - 2);
    return {LineAt(points, i, x, low), LineAt(points, i, x, low + 1), at - low, true};
  }

  absl::Status Search(const SolveContext& context);
  void Prune(std::vector<Label>* bucket) const;
  bool Dominates(const Label& a, const Label& b) const;
  void Expand(int i, int x, int32_t index);
  void Go(int i, int x, int32_t index, const Step& step, double again, int32_t sequence);
  void Push(int i, int x, Label label);
  void Finish(int x, int32_t index);
  RelaxedPlan Backtrack() const;

  const Chain& chain_;
  const Platform& platform_;
  const PartSequences& sequences_;
  const PofoProgram::Options& options_;
  const int last_;  // the loss
  const int64_t memory_;
  const double out_rate_;
  const double in_rate_;
  const bool moves_;
  Guide guide_ = Guide::kFluid;
  double penalty_ = 0;
  double limit_;                    // what a plan has to stay below
  std::vector<int64_t> save_need_;  // by stage, from 0
  std::vector<int64_t> back_need_;

  const int kept_points_;    // of A
  const int moving_points_;  // of ΔF, or ΔB
  const int64_t alike_bytes_;
  const double alike_seconds_;
  std::vector<float> leaving_;          // by row, A and ΔF: the relaxation that forgets ΔB
  std::vector<float> returning_;        // by row, A and ΔB: that which forgets ΔF
  std::vector<float> fluid_leaving_;    // by row and A + ΔF
  std::vector<float> fluid_returning_;  // by row and A + ΔB
  std::vector<int64_t> most_;           // by row: the most that A can be

  std::vector<std::vector<Label>> buckets_;
  std::vector<Label> labels_;
  int32_t end_ = -1;  // the label before the loss of the best plan
  double end_lost_ = 0;
  double end_order_ = kNoWay;
};

double PofoSearch::AgainSeconds(int first, int last, int64_t kept, double returning,
                                int32_t* sequence) const {
  const auto options = sequences_.Of(first - 1, last - 1);
  const int64_t free = memory_ - kept;
  const auto after = std::upper_bound(
      options.begin(), options.end(), free,
      [](int64_t bytes, const PartSequences::Sequence& s) { return bytes < s.peak_bytes; });
  const double once = sequences_.ForwardSeconds(first - 1, last - 1);
  double best = kNoWay;
  for (auto s = after; s != options.begin();) {
    --s;
    const double alone = once + s->lost_seconds;
    if (alone >= best) break;  // less memory, more time
    double seconds = alone;
    if (returning > 0) {
      const double late = s->reach_seconds + (returning - static_cast<double>(free)) / in_rate_;
      seconds = std::max(seconds, late - BackwardSeconds(first, last));
    }
    if (seconds < best) {
      best = seconds;
      *sequence = sequences_.IndexOf(*s);
    }
  }
  return best;
}

absl::Status PofoSearch::Relax(const SolveContext& context) {
  most_.assign(Row(last_ + 1, 0), -1);
  leaving_.assign(Begin(Row(last_ + 1, 0), 0), static_cast<float>(kNoWay));
  returning_ = leaving_;
  fluid_leaving_.assign(Row(last_ + 1, 0) * kFluidPoints, static_cast<float>(kNoWay));
  fluid_returning_ = fluid_leaving_;
  for (int i = last_; i >= 1; --i) {
    RETURN_IF_ERROR(context.CheckStop());
    for (int x = 0; x <= (i > 1 ? 1 : 0); ++x) {
      FillMost(i, x);
      if (most_[Row(i, x)] < 0) continue;
      FillFluid(i, x);
      FillGrid(i, x);
    }
  }
  return absl::OkStatus();
}

// The most that may be kept for good before stage i, whatever the time: with more no way leads on.
void PofoSearch::FillMost(int i, int x) {
  const int64_t input = Input(i, x);
  const int64_t keeps = MayMove(i - 1) ? 0 : input;
  int64_t& most = most_[Row(i, x)];
  const auto lift = [&](const Step& step, int64_t need) {
    const int64_t after =
        step.last == last_ ? memory_ : most_[Row(step.last + 1, step.saved ? 1 : 0)] - keeps;
    most = std::max(most, std::min(memory_ - input - need, after));
  };
  const Step save = SaveStep(i);
  lift(save, std::max(save.need, save.back_need));
  Step step;
  for (int j = i; j < last_; ++j) {
    if (!Extend(j, &step, i) || memory_ - input - step.need <= most) break;
    const auto ways = sequences_.Of(i - 1, j - 1);
    if (!ways.empty()) lift(step, std::max(step.need, ways.front().peak_bytes));
  }
}

void PofoSearch::FillFluid(int i, int x) {
  const int64_t free = memory_ - Input(i, x);
  const Step save = SaveStep(i);
  if (std::max(save.need, save.back_need) <= free) LowerFluid(i, x, save, 0);
  Step step;
  for (int j = i; j < last_; ++j) {
    if (!Extend(j, &step, i) || step.need > free) break;
    int32_t unused = -1;
    const double again = AgainSeconds(i, j, Input(i, x), 0, &unused);
    if (!IsNoWay(again)) LowerFluid(i, x, step, again);
  }
}

// In either phase whatever is on the device may be gone while the link is free, kept or not.
void PofoSearch::LowerFluid(int i, int x, const Step& step, double again) {
  float* const leaving = &fluid_leaving_[Row(i, x) * kFluidPoints];
  float* const returning = &fluid_returning_[Row(i, x) * kFluidPoints];
  const auto input = static_cast<double>(Input(i, x));
  const double room = Room(i, x, 0);
  const bool ends = step.last == last_;
  const bool may_move = MayMove(i - 1);
  const int next_x = step.saved ? 1 : 0;
  const Line next_leaving = ends ? Line{} : FluidAt(fluid_leaving_, step.last + 1, next_x);
  const Line next_returning = ends ? Line{} : FluidAt(fluid_returning_, step.last + 1, next_x);
  for (int p = 0; p < kFluidPoints; ++p) {
    const double there = room * p / (kFluidPoints - 1);
    const double wait = OutSeconds(step.late_need - room + there);
    if (again + wait < leaving[p]) {
      const double left = moves_ ? out_rate_ * (step.forward_seconds + wait) : 0;
      const double after = may_move ? there + input - left : std::max(0.0, there - left) + input;
      const double rest = ends ? 0 : next_leaving.At(after);
      leaving[p] = static_cast<float>(std::min<double>(leaving[p], again + wait + rest));
    }
    if (again >= returning[p]) continue;
    double lost = InSeconds(static_cast<double>(step.back_need) - room + there);
    if (!step.saved) {
      int32_t unused = -1;
      lost = AgainSeconds(i, step.last, Input(i, x), there, &unused);
    }
    const double seconds =
        lost + (step.saved ? chain_.stage(i).backward_seconds : BackwardSeconds(i, step.last));
    const double before = std::max(0.0, there - (moves_ ? in_rate_ * seconds : 0)) + input;
    const double rest = ends ? 0 : next_returning.At(before);
    returning[p] = static_cast<float>(std::min<double>(returning[p], lost + rest));
  }
}

void PofoSearch::FillGrid(int i, int x) {
  const size_t index = Row(i, x);
  for (int point = 0; point < kept_points_; ++point) {
    const auto kept = static_cast<int64_t>(KeptAt(index, point));
    const int64_t free = memory_ - kept - Input(i, x);
    float* const leaving = &leaving_[Begin(index, point)];
    float* const returning = &returning_[Begin(index, point)];
    const Step save = SaveStep(i);
    if (std::max(save.need, save.back_need) <= free) {
      LowerLeaving(i, x, save, kept, 0, leaving);
      LowerReturning(i, x, save, kept, returning);
    }
    Step step;
    for (int j = i; j < last_; ++j) {
      if (!Extend(j, &step, i) || step.need > free) break;
      // Even by itself the part costs more than the worst of these states.
      const int worst = moving_points_ - 1;
      if (step.forward_seconds >= std::max(leaving[worst], returning[worst])) break;
      int32_t unused = -1;
      const double again = AgainSeconds(i, j, kept + Input(i, x), 0, &unused);
      if (IsNoWay(again)) continue;
      if (again < leaving[worst]) LowerLeaving(i, x, step, kept, again, leaving);
      if (again < returning[worst]) LowerReturning(i, x, step, kept, returning);
    }
  }
}

void PofoSearch::LowerLeaving(int i, int x, const Step& step, int64_t kept, double again,
                              float* row) const {
  const auto input = static_cast<double>(Input(i, x));
  const auto stays = static_cast<double>(kept);
  const double room = Room(i, x, stays);
  const bool ends = step.last == last_;
  const int next_x = step.saved ? 1 : 0;
  const Strip keep = ends ? Strip{} : StripAt(leaving_, step.last + 1, next_x, stays + input);
  const Strip move =
      ends || !MayMove(i - 1) ? Strip{} : StripAt(leaving_, step.last + 1, next_x, stays);
  const double move_bytes = OutBytes(Input(i, x));
  for (int p = 0; p < moving_points_; ++p) {
    if (again >= row[p]) continue;
    const double leaving = room * p / (moving_points_ - 1);
    if (leaving > 0 && !moves_) break;
    const double wait = OutSeconds(step.late_need - room + leaving);
    const double rest_at = leaving - (moves_ ? out_rate_ * (step.forward_seconds + wait) : 0);
    const double rest =
        ends ? OutSeconds(rest_at) : std::min(keep.At(rest_at), move.At(rest_at + move_bytes));
    row[p] = static_cast<float>(std::min<double>(row[p], wait + again + rest));
  }
}

void PofoSearch::LowerReturning(int i, int x, const Step& step, int64_t kept, float* row) const {
  const auto input = static_cast<double>(Input(i, x));
  const auto stays = static_cast<double>(kept);
  const double room = Room(i, x, stays);
  const bool ends = step.last == last_;
  const int next_x = step.saved ? 1 : 0;
  const Strip keep = ends ? Strip{} : StripAt(returning_, step.last + 1, next_x, stays + input);
  const Strip move =
      ends || !MayMove(i - 1) ? Strip{} : StripAt(returning_, step.last + 1, next_x, stays);
  const double move_bytes = InBytes(Input(i, x));
  for (int p = 0; p < moving_points_; ++p) {
    const double returning = room * p / (moving_points_ - 1);
    if (returning > 0 && !moves_) break;
    double lost = 0;
    double seconds = 0;
    if (step.saved) {
      lost = InSeconds(static_cast<double>(step.back_need) - room + returning);
      seconds = chain_.stage(i).backward_seconds + lost;
    } else {
      int32_t unused = -1;
      lost = AgainSeconds(i, step.last, kept + Input(i, x), returning, &unused);
      seconds = lost + BackwardSeconds(i, step.last);
    }
    if (lost >= row[p]) continue;
    const double rest_at = returning - (moves_ ? in_rate_ * seconds : 0);
    const double rest =
        ends ? InSeconds(rest_at)
             : std::min(keep.At(rest_at), move.At(std::max(0.0, rest_at) + move_bytes));
    row[p] = static_cast<float>(std::min<double>(row[p], lost + rest));
  }
}

// Whether b, of no better promise, is of no use beside a.
bool PofoSearch::Dominates(const Label& a, const Label& b) const {
  if (a.kept > b.kept + alike_bytes_) return false;
  if (platform_.host_memory_bytes > 0 && a.host > b.host) return false;
  return a.lost + OutSeconds(a.leaving - b.leaving) + InSeconds(a.returning - b.returning) <=
         b.lost + alike_seconds_;
}

void PofoSearch::Prune(std::vector<Label>* bucket) const {
  std::erase_if(*bucket, [this](const Label& label) { return label.bound >= limit_; });
  std::sort(bucket->begin(), bucket->end(), [](const Label& a, const Label& b) {
    return std::pair(a.order, a.kept) < std::pair(b.order, b.kept);
  });
  const auto width = static_cast<size_t>(options_.width);
  if (bucket->size() > 5 * width) bucket->resize(5 * width);
  std::vector<Label> kept;
  for (const Label& label : *bucket) {
    if (kept.size() == width) break;
    const bool useless = std::any_of(kept.begin(), kept.end(),
                                     [&](const Label& other) { return Dominates(other, label); });
    if (!useless) kept.push_back(label);
  }
  *bucket = std::move(kept);
}

void PofoSearch::Push(int i, int x, Label label) {
  if (label.kept > most_[Row(i, x)]) return;
  label.bound = label.lost + Promise(i, x, label);
  if (label.bound >= limit_) return;
  // Else states that move whatever they can, for which there will be no time, fill the beam.
  label.order = label.bound + penalty_ * label.moved;
  std::vector<Label>& bucket = buckets_[Row(i, x)];
  bucket.push_back(label);
  if (bucket.size() >= static_cast<size_t>(options_.width) * 200) Prune(&bucket);
}

// From state `index` before stage i by `step`, its part run again in `again` seconds.
void PofoSearch::Go(int i, int x, int32_t index, const Step& step, double again, int32_t sequence) {
  const Label& from = labels_[static_cast<size_t>(index)];
  const int64_t input = Input(i, x);
  const int64_t free = memory_ - from.kept - input;
  const double wait = OutSeconds(step.late_need - static_cast<double>(free) + from.leaving);
  const double left = moves_ ? out_rate_ * (step.forward_seconds + wait) : 0;
  double back_seconds = 0;
  double back_wait = 0;
  if (step.saved) {
    back_wait = InSeconds(static_cast<double>(step.back_need - free) + from.returning);
    back_seconds = chain_.stage(i).backward_seconds + back_wait;
  } else {
    back_seconds = again + BackwardSeconds(i, step.last);
  }
  const double returned = moves_ ? in_rate_ * back_seconds : 0;
  Label next = from;
  next.parent = index;
  next.sequence = sequence;
  next.first = static_cast<int16_t>(i);
  next.saved = step.saved;
  next.lost = from.lost + wait + back_wait + again;
  if (step.last == last_) {
    const double rest = OutSeconds(from.leaving - left) + InSeconds(from.returning - returned);
    const double order = next.lost + rest + penalty_ * next.moved;
    if (next.lost + rest >= limit_ || order >= end_order_) return;
    end_order_ = order;
    end_ = index;
    end_lost_ = next.lost + rest;
    return;
  }
  const int next_x = step.saved ? 1 : 0;
  next.offloaded = false;
  next.kept = from.kept + input;
  next.leaving = std::max(0.0, from.leaving - left);
  next.returning = std::max(0.0, from.returning - returned);
  Push(step.last + 1, next_x, next);
  const int64_t host_limit = platform_.host_memory_bytes;
  if (!MayMove(i - 1) || (host_limit > 0 && from.host + input > host_limit)) return;
  next.offloaded = true;
  next.kept = from.kept;
  next.host = from.host + input;
  next.leaving = std::max(0.0, from.leaving + OutBytes(input) - left);
  next.returning = std::max(0.0, from.returning - returned) + InBytes(input);
  next.moved = from.moved + OutSeconds(OutBytes(input));
  Push(step.last + 1, next_x, next);
}

void PofoSearch::Expand(int i, int x, int32_t index) {
  const Label from = labels_[static_cast<size_t>(index)];
  const int64_t input = Input(i, x);
  const int64_t free = memory_ - from.kept - input;
  const Step save = SaveStep(i);
  if (std::max(save.need, save.back_need) <= free) Go(i, x, index, save, 0, -1);
  Step step;
  for (int j = i; j < last_; ++j) {
    if (!Extend(j, &step, i) || step.need > free) break;
    if (from.lost + step.forward_seconds >= limit_) break;
    int32_t sequence = -1;
    const double again = AgainSeconds(i, j, from.kept + input, from.returning, &sequence);
    if (!IsNoWay(again) && from.lost + again < limit_) Go(i, x, index, step, again, sequence);
  }
}

absl::Status PofoSearch::Search(const SolveContext& context) {
  labels_.clear();
  end_ = -1;
  end_order_ = kNoWay;
  buckets_.assign(Row(last_ + 1, 0), {});
  Push(1, 0, Label{});
  for (int i = 1; i <= last_; ++i) {
    RETURN_IF_ERROR(context.CheckStop());
    for (int x = 0; x <= 1; ++x) {
      std::vector<Label>& bucket = buckets_[Row(i, x)];
      Prune(&bucket);
      const auto begin = static_cast<int32_t>(labels_.size());
      labels_.insert(labels_.end(), bucket.begin(), bucket.end());
      std::vector<Label>().swap(bucket);
      const auto end = static_cast<int32_t>(labels_.size());
      for (int32_t index = begin; index < end; ++index) Expand(i, x, index);
    }
  }
  return absl::OkStatus();
}

RelaxedPlan PofoSearch::Backtrack() const {
  RelaxedPlan plan;
  plan.lost_seconds = end_lost_;
  plan.parts.push_back(SavedPart(last_));
  for (int32_t at = end_; labels_[static_cast<size_t>(at)].parent >= 0;) {
    const Label label = labels_[static_cast<size_t>(at)];
    const int last = plan.parts.back().first - 1;
    at = label.parent;
    if (label.saved) {
      plan.parts.push_back(SavedPart(last, label.offloaded));
      continue;
    }
    std::vector<Operation> again;
    sequences_.Append(label.first - 1, last - 1, label.sequence, &again);
    plan.parts.push_back(PassedPart(label.first, last, std::move(again), label.offloaded));
  }
  std::reverse(plan.parts.begin(), plan.parts.end());
  return plan;
}

PofoProgram::PofoProgram(const Chain& chain, const Platform& platform,
                         const PartSequences& sequences)
    : chain_(chain), platform_(platform), sequences_(sequences) {}

absl::StatusOr<std::vector<RelaxedPlan>> PofoProgram::Solve(const Options& options,
                                                            const SolveContext& context) const {
  return PofoSearch(*this, options).Run(context);
}

}  // namespace stowage
