#include "solver/algorithms/pofo/opportunist.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "solver/algorithms/by_budget.h"
#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/algorithms/transfers/forward_parts.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"

namespace stowage {
namespace {

constexpr int kStepsPerPart = 24;

PartSequences::Options SequenceOptions(int64_t memory_bytes) {
  return {.memory_bytes = memory_bytes,
          .most_recompute_seconds = std::numeric_limits<double>::infinity(),
          .most_steps_per_part = kStepsPerPart};
}

// Stages first..last as a chain of their own.
Chain SubChain(const Chain& chain, int first, int last) {
  Chain sub;
  sub.input_bytes = chain.output_bytes(first - 1);
  sub.input_gradient_bytes = chain.gradient_bytes(first - 1);
  for (int l = first; l <= last; ++l) sub.stages.push_back(chain.stage(l));
  return sub;
}

// Cuts one chain for one budget.
class Cutter {
 public:
  Cutter(const Instance& instance, int64_t memory_bytes)
      : chain_(instance.chain()),
        platform_(instance.platform()),
        memory_(memory_bytes),
        last_(chain_.length() + 1),
        moves_(platform_.has_link()) {}

  std::vector<ForwardPart> Cut() {
    for (int l = 1; l <= last_; ++l) {
      if (RestFits(l)) {
        for (; l <= last_; ++l) Save(l, /*moved=*/false);
        break;
      }
      if (l == last_ || chain_.stage(l).no_recompute || now_ >= copied_) {
        Save(l, /*moved=*/true);
      } else {
        Pass(l);
      }
    }
    return std::move(parts_);
  }

 private:
  int64_t InputBytes(int l) const {
    if (l == 1) return chain_.input_bytes;
    return !parts_.empty() && parts_.back().saved ? chain_.saved_bytes(l - 1)
                                                  : chain_.output_bytes(l - 1);
  }

  // Whether the stages from l on can all be saved beside what is kept for good.
  bool RestFits(int l) const {
    int64_t stored = kept_ + InputBytes(l);
    for (int k = l; k <= last_; ++k) {
      const Stage& stage = chain_.stage(k);
      stored += stage.saved_bytes;
      const int64_t gradients = chain_.gradient_bytes(k) + chain_.gradient_bytes(k - 1);
      const int64_t extra =
          std::max(stage.forward_overhead_bytes, gradients + stage.backward_overhead_bytes);
      if (stored + extra > memory_) return false;
    }
    return true;
  }

  // The input of stage l starts for the host, if it may.
  bool Move(int l) {
    const int64_t bytes = InputBytes(l);
    const bool may = moves_ && (l == 1 || !chain_.stage(l - 1).no_offload);
    if (!may) {
      kept_ += bytes;
      return false;
    }
    copied_ = std::max(copied_, now_) + platform_.transfer_latency_seconds +
              static_cast<double>(bytes) / platform_.offload_bytes_per_second;
    return true;
  }

  void Save(int l, bool moved) {
    const bool input_moves = (moved || output_moves_) && Move(l);
    parts_.push_back(SavedPart(l, input_moves));
    now_ += chain_.stage(l).forward_seconds;
    output_moves_ = moved;
  }

  void Pass(int l) {
    // The first of a group reads what the saved stage before it left.
    if (parts_.empty() || parts_.back().saved) {
      const bool input_moves = Move(l);
      parts_.push_back(PassedPart(l, l, {}, input_moves));
      output_moves_ = false;
    } else {
      parts_.back().last = l;
    }
    now_ += chain_.stage(l).forward_seconds;
  }

  const Chain& chain_;
  const Platform& platform_;
  const int64_t memory_;
  const int last_;  // the loss
  const bool moves_;
  std::vector<ForwardPart> parts_;
  int64_t kept_ = 0;           // on the device for good
  double now_ = 0;             // of the forward phase, were there no waits
  double copied_ = 0;          // when the copies so far are complete
  bool output_moves_ = false;  // of the stage saved last
};

class Opportunist final : public BudgetAlgorithm {
 public:
  const char* name() const override { return "opportunist"; }

  int64_t WorkingBytes(const Instance& instance) const override {
    constexpr int64_t kPerStage = 8 * 1024;
    return (instance.chain().length() + 2) * kPerStage +
           PartSequences::WorkingBytes(instance.chain().length(), SequenceOptions(0));
  }

  // Finds out by bisection how little memory is enough for it, coarsely: what its schedule then
  // needs is the least.
  absl::StatusOr<std::optional<LeastPlan>> FindLeast(const Instance& instance,
                                                     const SolveContext& context) const override {
    constexpr int kSteps = 12;
    int64_t low = FloorOfMemory(instance.chain()).bytes;
    int64_t high = StoreAllPeakBytes(instance.chain());
    ASSIGN_OR_RETURN(std::optional<LeastPlan> least, PlanWithin(instance, high, context));
    for (int step = 0; step < kSteps && low < high && least.has_value(); ++step) {
      const int64_t middle = low + (high - low) / 2;
      ASSIGN_OR_RETURN(std::optional<LeastPlan> plan, PlanWithin(instance, middle, context));
      if (plan.has_value()) {
        high = middle;
        if (plan->memory_bytes < least->memory_bytes) least = std::move(plan);
      } else {
        low = middle + 1;
      }
    }
    return least;
  }

  absl::StatusOr<std::optional<Schedule>> Find(const Instance& instance, int64_t memory_bytes,
                                               const SolveContext& context) const override {
    ASSIGN_OR_RETURN(std::optional<LeastPlan> plan, PlanWithin(instance, memory_bytes, context));
    if (!plan.has_value()) return std::optional<Schedule>();
    return std::move(plan->schedule);
  }

 private:
  static absl::StatusOr<std::optional<LeastPlan>> PlanWithin(const Instance& instance,
                                                             int64_t memory_bytes,
                                                             const SolveContext& context) {
    const Chain& chain = instance.chain();
    std::vector<ForwardPart> parts = Cutter(instance, memory_bytes).Cut();
    int64_t kept = 0;
    bool saved = false;  // the stage before
    for (ForwardPart& part : parts) {
      const int l = part.first;
      const int64_t input = l == 1  ? chain.input_bytes
                            : saved ? chain.saved_bytes(l - 1)
                                    : chain.output_bytes(l - 1);
      saved = part.saved;
      if (!part.saved) {
        ASSIGN_OR_RETURN(const bool fits,
                         RunAgain(chain, memory_bytes - kept - input, context, &part));
        if (!fits) return std::optional<LeastPlan>();
      }
      if (!part.offloaded) kept += input;
    }
    PartedSequence joined;
    Join(chain, parts, &joined);
    TransferPlacement placement(chain, instance.platform());
    if (!placement.Place(joined.sequence, joined.choices, memory_bytes).has_value()) {
      return std::optional<LeastPlan>();
    }
    return LeastPlan{placement.PeakBytes(), placement.ToSchedule(joined.sequence)};
  }

  // Fills in how the part runs again within `memory_bytes`; false when it cannot.
  static absl::StatusOr<bool> RunAgain(const Chain& chain, int64_t memory_bytes,
                                       const SolveContext& context, ForwardPart* part) {
    const Chain sub = SubChain(chain, part->first, part->last);
    ASSIGN_OR_RETURN(const PartSequences sequences,
                     PartSequences::Build(sub, SequenceOptions(memory_bytes), context));
    const auto ways = sequences.Of(0, sub.length() - 1);
    if (ways.empty()) return false;
    std::vector<Operation> again;
    sequences.Append(0, sub.length() - 1, sequences.IndexOf(ways.back()), &again);
    for (Operation& operation : again) operation.stage += part->first - 1;
    *part = PassedPart(part->first, part->last, std::move(again), part->offloaded);
    return true;
  }
};

}  // namespace

std::unique_ptr<Solver> MakeOpportunist() {
  return MakeBudgetSolver(std::make_unique<Opportunist>());
}

}  // namespace stowage
