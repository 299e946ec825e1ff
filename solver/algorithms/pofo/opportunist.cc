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

constexpr int kStepsPerPart = 24;  // of PartSequences

PartSequences::Options SequenceOptions(int64_t memory_bytes) {
  return {.memory_bytes = memory_bytes,
          .max_recompute_seconds = std::numeric_limits<double>::infinity(),
          .max_steps_per_part = kStepsPerPart};
}

// Stages first..last as a chain by itself, so that PartSequences fills only its parts.
Chain SubChain(const Chain& chain, int first, int last) {
  Chain sub;
  sub.input_bytes = chain.output_bytes(first - 1);
  sub.input_gradient_bytes = chain.gradient_bytes(first - 1);
  for (int l = first; l <= last; ++l) sub.stages.push_back(chain.stage(l));
  return sub;
}

// The greedy pass over the forward phase for one budget. Time is simulated without waits: `now_` is
// when the forwards so far end, `copied_` when the copies so far end.
class Cutter {
 public:
  Cutter(const Instance& instance, int64_t memory_bytes)
      : chain_(instance.chain()),
        platform_(instance.platform()),
        memory_(memory_bytes),
        loss_(chain_.length() + 1),
        has_link_(platform_.has_link()) {}

  std::vector<ForwardPart> Cut() {
    for (int l = 1; l <= loss_; ++l) {
      // Nothing more has to leave: save the rest.
      if (RestFits(l)) {
        for (; l <= loss_; ++l) Save(l, Values::kKept);
        break;
      }
      // Save and offload whenever the link is free, and where recomputation is not possible.
      if (l == loss_ || chain_.stage(l).no_recompute || now_ >= copied_) {
        Save(l, Values::kOffloaded);
      } else {
        AddToRecomputedPart(l);
      }
    }
    return std::move(parts_);
  }

 private:
  // What becomes of the input and the output of a saved stage.
  enum class Values { kKept, kOffloaded };

  // Bytes of value l-1 in the form that the part before stage l leaves.
  int64_t InputBytes(int l) const {
    if (l == 1) return chain_.input_bytes;
    return !parts_.empty() && parts_.back().saved ? chain_.saved_bytes(l - 1)
                                                  : chain_.output_bytes(l - 1);
  }

  // Whether stages l.. can all be saved, without offloading, beside what is kept already.
  bool RestFits(int l) const {
    int64_t stored = kept_ + InputBytes(l);
    for (int k = l; k <= loss_; ++k) {
      const Stage& stage = chain_.stage(k);
      stored += stage.saved_bytes;
      const int64_t gradients = chain_.gradient_bytes(k) + chain_.gradient_bytes(k - 1);
      const int64_t extra =
          std::max(stage.SaveOverheadBytes(0), gradients + stage.backward_overhead_bytes);
      if (stored + extra > memory_) return false;
    }
    return true;
  }

  // Starts copying the input of stage l to the host, or keeps it where it may not be offloaded.
  PartInput OffloadInput(int l) {
    const int64_t bytes = InputBytes(l);
    const bool may = has_link_ && (l == 1 || !chain_.stage(l - 1).no_offload);
    if (!may) {
      kept_ += bytes;
      return PartInput::kKept;
    }
    copied_ = std::max(copied_, now_) + platform_.transfer_latency_seconds +
              static_cast<double>(bytes) / platform_.offload_bytes_per_second;
    return PartInput::kOffloaded;
  }

  // Saves stage l. Its input is offloaded if the stage before it or stage l is saved with its
  // values offloaded. kept_ leaves out the inputs of the last stages, all of which are kept:
  // RestFits() has counted them and is not called again.
  void Save(int l, Values values) {
    const bool offloads = values == Values::kOffloaded;
    const PartInput input = offloads || offloads_output_ ? OffloadInput(l) : PartInput::kKept;
    parts_.push_back(SavedPart(l, input));
    now_ += chain_.stage(l).forward_seconds;
    offloads_output_ = offloads;
  }

  // Starts a recomputed part at stage l, or extends the last one by it.
  void AddToRecomputedPart(int l) {
    if (parts_.empty() || parts_.back().saved) {
      parts_.push_back(PassedPart(l, l, {}, OffloadInput(l)));
      offloads_output_ = false;
    } else {
      parts_.back().last = l;
    }
    now_ += chain_.stage(l).forward_seconds;
  }

  const Chain& chain_;
  const Platform& platform_;
  const int64_t memory_;
  const int loss_;
  const bool has_link_;
  std::vector<ForwardPart> parts_;
  int64_t kept_ = 0;              // bytes of inputs that stay on the device
  double now_ = 0;                // seconds
  double copied_ = 0;             // seconds
  bool offloads_output_ = false;  // of the last part, a saved stage
};

class Opportunist final : public BudgetAlgorithm {
 public:
  const char* name() const override { return "opportunist"; }

  int64_t WorkingBytes(const Instance& instance) const override {
    constexpr int64_t kPerStage = 8 << 10;
    return (instance.chain().length() + 2) * kPerStage +
           PartSequences::WorkingBytes(instance.chain().length(), SequenceOptions(0));
  }

  // Bisects the budget between the memory floor and storing everything, coarsely, and keeps the
  // schedule with the lowest peak. Success is not monotone in the budget, so this is an upper
  // bound.
  absl::StatusOr<std::optional<LeastPlan>> FindLeast(const Instance& instance,
                                                     const SolveContext& context) const override {
    constexpr int kSteps = 12;
    int64_t low = FloorOfMemory(instance.chain(), instance.units()).bytes;
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
  // The schedule for one budget; nullopt when a recomputed part, or the whole, does not fit.
  static absl::StatusOr<std::optional<LeastPlan>> PlanWithin(const Instance& instance,
                                                             int64_t memory_bytes,
                                                             const SolveContext& context) {
    const Chain& chain = instance.chain();
    std::vector<ForwardPart> parts = Cutter(instance, memory_bytes).Cut();
    // Each recomputed part has the memory beside its input and the inputs kept before it: the
    // parts after it have run backward by then.
    int64_t kept = 0;
    bool saved = false;  // whether the part before is a saved stage
    for (ForwardPart& part : parts) {
      const int l = part.first;
      const int64_t input = l == 1  ? chain.input_bytes
                            : saved ? chain.saved_bytes(l - 1)
                                    : chain.output_bytes(l - 1);
      saved = part.saved;
      if (!part.saved) {
        ASSIGN_OR_RETURN(const bool fits,
                         FillRecomputation(chain, memory_bytes - kept - input, context, &part));
        if (!fits) return std::optional<LeastPlan>();
      }
      if (part.input == PartInput::kKept) kept += input;
    }
    AssembledSequence assembled;
    AssembleParts(chain, parts, &assembled);
    TransferPlacement placement(chain, instance.platform());
    if (!placement.Place(assembled.sequence, assembled.choices, memory_bytes).has_value()) {
      return std::optional<LeastPlan>();
    }
    return LeastPlan{placement.PeakBytes(), placement.ToSchedule(assembled.sequence)};
  }

  // Gives the part its fastest recomputation within `memory_bytes`; false when there is none.
  static absl::StatusOr<bool> FillRecomputation(const Chain& chain, int64_t memory_bytes,
                                                const SolveContext& context, ForwardPart* part) {
    const Chain sub = SubChain(chain, part->first, part->last);
    ASSIGN_OR_RETURN(const PartSequences sequences,
                     PartSequences::Build(sub, SequenceOptions(memory_bytes), context));
    const auto fitting = sequences.Fastest(0, sub.length() - 1);
    if (fitting.empty()) return false;
    std::vector<Operation> recomputation;
    sequences.AppendOperations(0, sub.length() - 1, sequences.IndexOf(fitting.back()),
                               &recomputation);
    for (Operation& operation : recomputation) operation.stage += part->first - 1;
    *part = PassedPart(part->first, part->last, std::move(recomputation), part->input);
    return true;
  }
};

}  // namespace

std::unique_ptr<Solver> MakeOpportunist() {
  return MakeBudgetSolver(std::make_unique<Opportunist>());
}

}  // namespace stowage
