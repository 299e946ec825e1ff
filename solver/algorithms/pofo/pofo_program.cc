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

// Tolerances of dominance, as shares of the memory limit and of a training step: states that differ
// by less count as equal, and the beam keeps one of them.
constexpr double kEqualBytesShare = 0.005;
constexpr double kEqualSecondsShare = 5e-5;
// Later searches drop states that lose more than this factor of the best plan so far.
constexpr double kWorstUsefulFactor = 1.05;

// The beam search, run once for each guide and penalty.
class PofoSearch {
 public:
  PofoSearch(const PofoSteps& steps, const PofoRelaxation& relaxation,
             const PartSequences& sequences, const PofoProgram::Options& options)
      : steps_(steps),
        relaxation_(relaxation),
        sequences_(sequences),
        options_(options),
        loss_(steps.loss()),
        limit_(options.max_lost_seconds),
        equal_bytes_(
            static_cast<int64_t>(kEqualBytesShare * static_cast<double>(options.memory_bytes))),
        equal_seconds_(kEqualSecondsShare * EagerSeconds(steps.chain())) {}

  absl::StatusOr<std::vector<RelaxedPlan>> Run(const SolveContext& context) {
    std::vector<RelaxedPlan> plans;
    for (const Guide guide : {Guide::kFluid, Guide::kGrid}) {
      guide_ = guide;
      for (const double penalty : options_.offload_penalties) {
        penalty_ = penalty;
        RETURN_IF_ERROR(Search(context));
        if (best_.label < 0) continue;
        plans.push_back(Backtrack());
        limit_ = std::min(limit_, kWorstUsefulFactor * best_.lost_seconds + equal_seconds_);
      }
    }
    return plans;
  }

 private:
  // Which relaxation estimates the rest of a plan.
  enum class Guide { kFluid, kGrid };

  // A state before stage i, and the part that led to it.
  struct Label {
    PofoLoad load;
    double lost = 0;             // g, seconds
    double rank = 0;             // g, the estimate and the penalty; the beam keeps the least
    int64_t host_bytes = 0;      // held by offloaded values
    double offload_seconds = 0;  // of all copies to the host so far
    int32_t parent = -1;         // index in labels_
    int32_t sequence = -1;       // of the part's recomputation; -1: saved
    int16_t first = 0;           // first stage of the part
    bool saved = false;
    PartInput input = PartInput::kKept;  // of the part
  };
  // What labels of one bucket are sorted by, a third of their size.
  struct Rank {
    double rank = 0;
    int64_t kept = 0;
    size_t index = 0;  // in the bucket
  };
  // One more part after a state.
  struct Transition {
    PofoPosition at;     // of the state
    int32_t label = -1;  // the state's index in labels_
    const PofoStep& step;
    double recompute_seconds = 0;  // 0 for a saved stage
    int32_t sequence = -1;         // -1 for a saved stage
  };
  // What the link carries during a part, in bytes.
  struct Carried {
    double offloaded = 0;   // DF
    double prefetched = 0;  // DB
  };
  // The best plan of a search: its state before the loss.
  struct BestPlan {
    int32_t label = -1;
    double lost_seconds = 0;
    double rank = PofoSteps::kInfeasible;
  };

  static size_t Row(PofoPosition at) {
    return static_cast<size_t>(at.i - 1) * 2 + static_cast<size_t>(at.x);
  }
  double Estimate(PofoPosition at, const PofoLoad& load) const {
    return guide_ == Guide::kFluid ? relaxation_.Fluid(at, load) : relaxation_.Grid(at, load);
  }

  absl::Status Search(const SolveContext& context);
  void Prune(std::vector<Label>* bucket);
  bool Dominates(const Label& a, const Label& b) const;
  void FillLeast();
  void ListParts(int i);
  void Expand(PofoPosition at, int32_t index);
  void AddPart(const Transition& transition);
  void EndPlan(const Transition& transition, double lost, const Carried& carried);
  void PushSuccessors(const Transition& transition, double lost, const Carried& carried);
  void Push(PofoPosition at, Label label);
  RelaxedPlan Backtrack() const;

  const PofoSteps& steps_;
  const PofoRelaxation& relaxation_;
  const PartSequences& sequences_;
  const PofoProgram::Options& options_;
  const int loss_;
  Guide guide_ = Guide::kFluid;
  double penalty_ = 0;
  double limit_;  // seconds; states that lose as much, with or without the estimate, are dropped
  const int64_t equal_bytes_;
  const double equal_seconds_;
  std::vector<PofoPart> parts_;              // that may follow the states before one stage
  std::vector<std::vector<Label>> buckets_;  // by Row(): states that are not expanded yet
  std::vector<Label> labels_;                // expanded states, for backtracking
  std::vector<double> least_;                // by Row(): seconds that the rest loses at least
  std::vector<Rank> ranks_;                  // scratch of Prune()
  BestPlan best_;
};

// The dominance rule at the top of the header, within the tolerances. With a limited host, a must
// not hold more there either.
bool PofoSearch::Dominates(const Label& a, const Label& b) const {
  if (a.load.kept > b.load.kept + equal_bytes_) return false;
  if (steps_.host_memory_bytes() > 0 && a.host_bytes > b.host_bytes) return false;
  return a.lost + steps_.OffloadSeconds(a.load.leaving - b.load.leaving) +
             steps_.PrefetchSeconds(a.load.returning - b.load.returning) <=
         b.lost + equal_seconds_;
}

// Reduces a bucket to the `width` best-ranked states that no better-ranked one dominates.
void PofoSearch::Prune(std::vector<Label>* bucket) {
  const auto better = [](const Rank& a, const Rank& b) {
    return std::pair(a.rank, a.kept) < std::pair(b.rank, b.kept);
  };
  ranks_.clear();
  for (const Label& label : *bucket) ranks_.push_back({label.rank, label.load.kept, ranks_.size()});
  // Cut first: the dominance test is quadratic.
  const auto width = static_cast<size_t>(options_.width);
  if (ranks_.size() > 5 * width) {
    const auto cut = ranks_.begin() + static_cast<std::ptrdiff_t>(5 * width);
    std::nth_element(ranks_.begin(), cut, ranks_.end(), better);
    ranks_.erase(cut, ranks_.end());
  }
  std::sort(ranks_.begin(), ranks_.end(), better);
  std::vector<Label> beam;
  for (const Rank& rank : ranks_) {
    if (beam.size() == width) break;
    const Label& label = (*bucket)[rank.index];
    const bool dominated = std::any_of(beam.begin(), beam.end(),
                                       [&](const Label& other) { return Dominates(other, label); });
    if (!dominated) beam.push_back(label);
  }
  *bucket = std::move(beam);
}

void PofoSearch::Push(PofoPosition at, Label label) {
  if (label.load.kept > relaxation_.MostKept(at)) return;
  const double estimate = label.lost + Estimate(at, label.load);
  const bool by_estimate = options_.pruning == PofoProgram::Pruning::kByEstimate;
  if ((by_estimate ? estimate : label.lost) >= limit_) return;
  // Without the penalty, states that offload everything they can fill the beam, though the link
  // will not have time for all of it.
  label.rank = estimate + penalty_ * label.offload_seconds;
  std::vector<Label>& bucket = buckets_[Row(at)];
  bucket.push_back(label);
  // Bounds the memory of a bucket until its turn comes.
  if (bucket.size() >= static_cast<size_t>(options_.width) * 200) Prune(&bucket);
}

// Applies the recurrence at the top of the header to one state and one part.
void PofoSearch::AddPart(const Transition& transition) {
  const Label& from = labels_[static_cast<size_t>(transition.label)];
  const PofoStep& step = transition.step;
  const PofoPosition at = transition.at;
  const int64_t mem = steps_.memory_bytes() - from.load.kept - steps_.InputBytes(at);
  // Forward phase: εF, then DF.
  const double forward_wait =
      steps_.OffloadSeconds(step.late_need - static_cast<double>(mem) + from.load.leaving);
  Carried carried;
  carried.offloaded = steps_.OffloadedIn(step.forward_seconds + forward_wait);
  // Backward phase: εB or C, then DB.
  double backward_seconds = 0;
  double backward_wait = 0;
  if (step.saved) {
    backward_wait =
        steps_.PrefetchSeconds(static_cast<double>(step.backward_need - mem) + from.load.returning);
    backward_seconds = steps_.chain().stage(at.i).backward_seconds + backward_wait;
  } else {
    backward_seconds = transition.recompute_seconds + steps_.BackwardSeconds(at.i, step.last);
  }
  carried.prefetched = steps_.PrefetchedIn(backward_seconds);
  const double lost = from.lost + forward_wait + backward_wait + transition.recompute_seconds;
  if (step.last == loss_) {
    EndPlan(transition, lost, carried);
  } else if (lost + least_[Row(After(step))] < limit_) {
    PushSuccessors(transition, lost, carried);
  }
}

// The loss is saved: what has not left or returned by then is lost time.
void PofoSearch::EndPlan(const Transition& transition, double lost, const Carried& carried) {
  const Label& from = labels_[static_cast<size_t>(transition.label)];
  const double rest = steps_.OffloadSeconds(from.load.leaving - carried.offloaded) +
                      steps_.PrefetchSeconds(from.load.returning - carried.prefetched);
  const double rank = lost + rest + penalty_ * from.offload_seconds;
  if (lost + rest >= limit_ || rank >= best_.rank) return;
  best_ = {transition.label, lost + rest, rank};
}

// The two states after the part: its input kept, and offloaded.
void PofoSearch::PushSuccessors(const Transition& transition, double lost, const Carried& carried) {
  const Label& from = labels_[static_cast<size_t>(transition.label)];
  const PofoPosition at = transition.at;
  const PofoPosition after = After(transition.step);
  const int64_t input = steps_.InputBytes(at);
  Label next = from;
  next.parent = transition.label;
  next.sequence = transition.sequence;
  next.first = static_cast<int16_t>(at.i);
  next.saved = transition.step.saved;
  next.lost = lost;
  next.input = PartInput::kKept;
  next.load.kept = from.load.kept + input;
  next.load.leaving = std::max(0.0, from.load.leaving - carried.offloaded);
  next.load.returning = std::max(0.0, from.load.returning - carried.prefetched);
  Push(after, next);
  const int64_t host_limit = steps_.host_memory_bytes();
  if (!steps_.MayOffload(at.i - 1)) return;
  if (host_limit > 0 && from.host_bytes + input > host_limit) return;
  const double load = steps_.OffloadLoad(input);
  next.input = PartInput::kOffloaded;
  next.load.kept = from.load.kept;
  next.host_bytes = from.host_bytes + input;
  // Copying I may overlap the part's forwards, so I counts before the subtraction; I has to be back
  // when the part's backward starts, so there it counts in full.
  next.load.leaving = std::max(0.0, from.load.leaving + load - carried.offloaded);
  next.load.returning =
      std::max(0.0, from.load.returning - carried.prefetched) + steps_.PrefetchLoad(input);
  next.offload_seconds = from.offload_seconds + steps_.OffloadSeconds(load);
  Push(after, next);
}

// The estimate of what follows, for the load that loses least; nothing where states are dropped by
// what they have lost.
void PofoSearch::FillLeast() {
  least_.assign(Row({loss_ + 1, 0}), PofoSteps::kInfeasible);
  for (int i = 1; i <= loss_; ++i) {
    for (int x = 0; x <= 1; ++x) {
      const PofoPosition at{i, x};
      if (relaxation_.MostKept(at) < 0) continue;
      double& least = least_[Row(at)];
      if (options_.pruning == PofoProgram::Pruning::kByLoss) {
        least = 0;
      } else {
        least = guide_ == Guide::kFluid ? relaxation_.LeastFluid(at) : relaxation_.LeastGrid(at);
      }
    }
  }
}

// The parts that begin at stage i and, with what follows, do not lose too much whatever the state.
// least_seconds then counts what follows, too.
void PofoSearch::ListParts(int i) {
  steps_.ListParts(i, limit_, &parts_);
  for (PofoPart& part : parts_) part.least_seconds += least_[Row(After(part.step))];
  std::erase_if(parts_, [this](const PofoPart& part) { return part.least_seconds >= limit_; });
}

// All parts that may follow state `index` before stage i.
void PofoSearch::Expand(PofoPosition at, int32_t index) {
  const Label from = labels_[static_cast<size_t>(index)];
  const int64_t input = steps_.InputBytes(at);
  const int64_t mem = steps_.memory_bytes() - from.load.kept - input;
  const PofoStep save = steps_.SaveStep(at.i);
  if (std::max(save.forward_need, save.backward_need) <= mem) {
    AddPart({.at = at, .label = index, .step = save});
  }
  for (const PofoPart& part : parts_) {
    const PofoStep& step = part.step;
    // Every forward of the part runs twice, so this and every longer part loses too much.
    if (step.forward_need > mem || from.lost + step.forward_seconds >= limit_) break;
    if (part.least_need > mem || from.lost + part.least_seconds >= limit_) continue;
    const PofoSteps::Recomputation recomputation =
        steps_.RecomputationsOf({at.i, step.last}, from.load.kept + input)
            .Fastest(from.load.returning);
    if (from.lost + recomputation.seconds >= limit_) continue;
    AddPart({.at = at,
             .label = index,
             .step = step,
             .recompute_seconds = recomputation.seconds,
             .sequence = recomputation.sequence});
  }
}

// One pass over the stages. Parts only lead forward, so a bucket is complete when its turn comes.
absl::Status PofoSearch::Search(const SolveContext& context) {
  labels_.clear();
  best_ = {};
  buckets_.assign(Row({loss_ + 1, 0}), {});
  FillLeast();
  Push({1, 0}, Label{});
  for (int i = 1; i <= loss_; ++i) {
    RETURN_IF_ERROR(context.CheckStop());
    ListParts(i);
    for (int x = 0; x <= 1; ++x) {
      const PofoPosition at{i, x};
      std::vector<Label>& bucket = buckets_[Row(at)];
      Prune(&bucket);
      const auto begin = static_cast<int32_t>(labels_.size());
      labels_.insert(labels_.end(), bucket.begin(), bucket.end());
      std::vector<Label>().swap(bucket);  // frees its memory
      const auto end = static_cast<int32_t>(labels_.size());
      for (int32_t index = begin; index < end; ++index) Expand(at, index);
    }
  }
  return absl::OkStatus();
}

// Follows the parents of the best plan from the loss to stage 1.
RelaxedPlan PofoSearch::Backtrack() const {
  RelaxedPlan plan;
  plan.lost_seconds = best_.lost_seconds;
  plan.parts.push_back(SavedPart(loss_));
  for (int32_t at = best_.label; labels_[static_cast<size_t>(at)].parent >= 0;) {
    const Label label = labels_[static_cast<size_t>(at)];
    const int last = plan.parts.back().first - 1;
    at = label.parent;
    if (label.saved) {
      plan.parts.push_back(SavedPart(last, label.input));
      continue;
    }
    std::vector<Operation> recomputation;
    sequences_.AppendOperations(label.first - 1, last - 1, label.sequence, &recomputation);
    plan.parts.push_back(PassedPart(label.first, last, std::move(recomputation), label.input));
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
                                          .limit_seconds = options.max_lost_seconds},
                                         context));
  return PofoSearch(steps, relaxation, sequences_, options).Run(context);
}

}  // namespace stowage
