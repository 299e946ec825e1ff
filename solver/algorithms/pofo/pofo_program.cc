#include "solver/algorithms/pofo/pofo_program.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "solver/algorithms/pofo/pofo_relaxation.h"
#include "solver/algorithms/pofo/pofo_steps.h"
#include "solver/base/status_macros.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

// States that differ by less, in shares of the memory and of a step, are alike: one of them in the
// beam is enough.
constexpr double kAlikeBytes = 0.005;
constexpr double kAlikeSeconds = 5e-5;
// Plans that lose this much more than the best so far are not looked for.
constexpr double kWorthMore = 1.05;

// The beam, once for each guide and penalty. Stages and values as in the header.
class PofoSearch {
 public:
  PofoSearch(const PofoSteps& steps, const PofoRelaxation& relaxation,
             const PartSequences& sequences, const PofoProgram::Options& options)
      : steps_(steps),
        relaxation_(relaxation),
        sequences_(sequences),
        options_(options),
        loss_(steps.loss()),
        limit_(options.most_lost_seconds),
        alike_bytes_(static_cast<int64_t>(kAlikeBytes * static_cast<double>(options.memory_bytes))),
        alike_seconds_(kAlikeSeconds * ComputeSeconds(steps.chain())) {}

  absl::StatusOr<std::vector<RelaxedPlan>> Run(const SolveContext& context) {
    std::vector<RelaxedPlan> plans;
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

  // Before stage i.
  struct Label {
    PofoLoad load;     // A, ΔF, ΔB
    double lost = 0;   // g
    double bound = 0;  // what a plan is taken to lose at least: g, and the relaxation of the rest
    double order = 0;  // g, that, and a little for what is moved: the most promising is least
    int64_t host = 0;
    double moved = 0;     // seconds of copying to the host
    int32_t parent = -1;  // in labels_
    int32_t sequence = -1;
    int16_t first = 0;  // of the part that led here
    bool saved = false;
    bool offloaded = false;
  };

  static size_t Row(int i, int x) { return static_cast<size_t>((i - 1) * 2 + x); }
  double Promise(int i, int x, const Label& label) const {
    return guide_ == Guide::kFluid ? relaxation_.Fluid(i, x, label.load)
                                   : relaxation_.Grid(i, x, label.load);
  }

  absl::Status Search(const SolveContext& context);
  void Prune(std::vector<Label>* bucket) const;
  bool Dominates(const Label& a, const Label& b) const;
  void Expand(int i, int x, int32_t index);
  void Go(int i, int x, int32_t index, const PofoStep& step, double again, int32_t sequence);
  void Push(int i, int x, Label label);
  RelaxedPlan Backtrack() const;

  const PofoSteps& steps_;
  const PofoRelaxation& relaxation_;
  const PartSequences& sequences_;
  const PofoProgram::Options& options_;
  const int loss_;
  Guide guide_ = Guide::kFluid;
  double penalty_ = 0;
  double limit_;  // what a plan has to stay below
  const int64_t alike_bytes_;
  const double alike_seconds_;
  std::vector<std::vector<Label>> buckets_;
  std::vector<Label> labels_;
  int32_t end_ = -1;  // the label before the loss of the best plan
  double end_lost_ = 0;
  double end_order_ = PofoSteps::kNoWay;
};

// Whether b, of no better promise, is of no use beside a.
bool PofoSearch::Dominates(const Label& a, const Label& b) const {
  if (a.load.kept > b.load.kept + alike_bytes_) return false;
  if (steps_.host_memory_bytes() > 0 && a.host > b.host) return false;
  return a.lost + steps_.OutSeconds(a.load.leaving - b.load.leaving) +
             steps_.InSeconds(a.load.returning - b.load.returning) <=
         b.lost + alike_seconds_;
}

void PofoSearch::Prune(std::vector<Label>* bucket) const {
  std::erase_if(*bucket, [this](const Label& label) { return label.bound >= limit_; });
  std::sort(bucket->begin(), bucket->end(), [](const Label& a, const Label& b) {
    return std::pair(a.order, a.load.kept) < std::pair(b.order, b.load.kept);
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
  if (label.load.kept > relaxation_.Most(i, x)) return;
  const double estimate = label.lost + Promise(i, x, label);
  label.bound = options_.prunes_by_estimate ? estimate : label.lost;
  if (label.bound >= limit_) return;
  // Else states that move whatever they can, for which there will be no time, fill the beam.
  label.order = estimate + penalty_ * label.moved;
  std::vector<Label>& bucket = buckets_[Row(i, x)];
  bucket.push_back(label);
  if (bucket.size() >= static_cast<size_t>(options_.width) * 200) Prune(&bucket);
}

// From state `index` before stage i by `step`, its part run again in `again` seconds.
void PofoSearch::Go(int i, int x, int32_t index, const PofoStep& step, double again,
                    int32_t sequence) {
  const Label& from = labels_[static_cast<size_t>(index)];
  const int64_t input = steps_.Input(i, x);
  const int64_t free = steps_.memory_bytes() - from.load.kept - input;
  const double wait =
      steps_.OutSeconds(step.late_need - static_cast<double>(free) + from.load.leaving);
  const double left = steps_.OutWithin(step.forward_seconds + wait);
  double back_seconds = 0;
  double back_wait = 0;
  if (step.saved) {
    back_wait = steps_.InSeconds(static_cast<double>(step.back_need - free) + from.load.returning);
    back_seconds = steps_.chain().stage(i).backward_seconds + back_wait;
  } else {
    back_seconds = again + steps_.BackwardSeconds(i, step.last);
  }
  const double returned = steps_.InWithin(back_seconds);
  Label next = from;
  next.parent = index;
  next.sequence = sequence;
  next.first = static_cast<int16_t>(i);
  next.saved = step.saved;
  next.lost = from.lost + wait + back_wait + again;
  if (step.last == loss_) {
    const double rest = steps_.OutSeconds(from.load.leaving - left) +
                        steps_.InSeconds(from.load.returning - returned);
    const double order = next.lost + rest + penalty_ * next.moved;
    if (next.lost + rest >= limit_ || order >= end_order_) return;
    end_order_ = order;
    end_ = index;
    end_lost_ = next.lost + rest;
    return;
  }
  const int next_x = step.saved ? 1 : 0;
  next.offloaded = false;
  next.load.kept = from.load.kept + input;
  next.load.leaving = std::max(0.0, from.load.leaving - left);
  next.load.returning = std::max(0.0, from.load.returning - returned);
  Push(step.last + 1, next_x, next);
  const int64_t host_limit = steps_.host_memory_bytes();
  if (!steps_.MayMove(i - 1) || (host_limit > 0 && from.host + input > host_limit)) return;
  next.offloaded = true;
  next.load.kept = from.load.kept;
  next.host = from.host + input;
  next.load.leaving = std::max(0.0, from.load.leaving + steps_.OutBytes(input) - left);
  next.load.returning = std::max(0.0, from.load.returning - returned) + steps_.InBytes(input);
  next.moved = from.moved + steps_.OutSeconds(steps_.OutBytes(input));
  Push(step.last + 1, next_x, next);
}

void PofoSearch::Expand(int i, int x, int32_t index) {
  const Label from = labels_[static_cast<size_t>(index)];
  const int64_t input = steps_.Input(i, x);
  const int64_t free = steps_.memory_bytes() - from.load.kept - input;
  const PofoStep save = steps_.SaveStep(i);
  if (std::max(save.need, save.back_need) <= free) Go(i, x, index, save, 0, -1);
  PofoStep step;
  for (int j = i; j < loss_; ++j) {
    if (!steps_.Extend(j, i, limit_, &step) || step.need > free) break;
    if (from.lost + step.forward_seconds >= limit_) break;
    int32_t sequence = -1;
    const double again =
        steps_.AgainSeconds(i, j, from.load.kept + input, from.load.returning, &sequence);
    if (!PofoSteps::IsNoWay(again) && from.lost + again < limit_)
      Go(i, x, index, step, again, sequence);
  }
}

absl::Status PofoSearch::Search(const SolveContext& context) {
  labels_.clear();
  end_ = -1;
  end_order_ = PofoSteps::kNoWay;
  buckets_.assign(Row(loss_ + 1, 0), {});
  Push(1, 0, Label{});
  for (int i = 1; i <= loss_; ++i) {
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
  plan.parts.push_back(SavedPart(loss_));
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

}  // namespace

PofoProgram::PofoProgram(const Chain& chain, const Platform& platform,
                         const PartSequences& sequences)
    : chain_(chain), platform_(platform), sequences_(sequences) {}

absl::StatusOr<std::vector<RelaxedPlan>> PofoProgram::Solve(const Options& options,
                                                            const SolveContext& context) const {
  const PofoSteps steps(chain_, platform_, sequences_, options.memory_bytes);
  ASSIGN_OR_RETURN(const PofoRelaxation relaxation,
                   PofoRelaxation::Build(steps,
                                         {.kept_points = options.kept_points,
                                          .moving_points = options.moving_points,
                                          .limit_seconds = options.most_lost_seconds},
                                         context));
  return PofoSearch(steps, relaxation, sequences_, options).Run(context);
}

}  // namespace stowage
