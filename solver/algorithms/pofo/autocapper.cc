#include "solver/algorithms/pofo/autocapper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "solver/algorithms/by_budget.h"
#include "solver/algorithms/rematerialization/rotor.h"
#include "solver/algorithms/transfers/compute_sequence.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"

namespace stowage {
namespace {

constexpr int kLimits = 40;  // the paper's number

Instance WithMemory(const Instance& instance, int64_t memory_bytes) {
  SolveRequest request{instance.chain(), instance.platform(), "rotor", instance.options()};
  request.platform.memory_bytes = memory_bytes;
  return Instance::Exact(request);
}

// At most kLimits values, evenly spaced, both ends included.
std::vector<int64_t> Limits(int64_t from, int64_t to) {
  std::vector<int64_t> limits;
  limits.reserve(kLimits);
  const int64_t step = (std::max(from, to) - from) / (kLimits - 1);
  for (int i = 0; i < kLimits - 1; ++i) limits.push_back(from + step * i);
  limits.push_back(std::max(from, to));
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

// Offloads values of one sequence, one at a time, to lower its peak. Counts memory as if every
// offload were complete at once; TransferPlacement decides what fits. Borrows the sequence.
class Capper {
 public:
  Capper(const Instance& instance, const ComputeSequence& sequence)
      : sequence_(sequence),
        has_link_(instance.platform().has_link()),
        need_(sequence.need_bytes),
        choices_(sequence.gaps.size()) {}

  const std::vector<GapChoice>& choices() const { return choices_; }

  // Offloads one more value; false when no value waits during the operation of highest need.
  bool LowerPeak() {
    if (!has_link_) return false;
    const auto peak =
        static_cast<int>(std::max_element(need_.begin(), need_.end()) - need_.begin());
    // The gap that spans the peak and whose value has the lowest index; of one value the first gap.
    int lowest = -1;
    for (size_t g = 0; g < choices_.size(); ++g) {
      const Gap& gap = sequence_.gaps[g];
      if (choices_[g].moved || gap.after >= peak || gap.before <= peak) continue;
      if (lowest < 0 || gap.value < sequence_.gaps[static_cast<size_t>(lowest)].value) {
        lowest = static_cast<int>(g);
      }
    }
    if (lowest < 0) return false;
    const Gap& gap = sequence_.gaps[static_cast<size_t>(lowest)];
    choices_[static_cast<size_t>(lowest)].moved = true;
    for (int k = gap.after + 1; k < gap.before; ++k) need_[static_cast<size_t>(k)] -= gap.bytes;
    return true;
  }

  int64_t PeakBytes() const { return *std::max_element(need_.begin(), need_.end()); }

 private:
  const ComputeSequence& sequence_;
  const bool has_link_;
  std::vector<int64_t> need_;       // bytes by operation, without what is offloaded meanwhile
  std::vector<GapChoice> choices_;  // by gap
};

class Autocapper final : public BudgetAlgorithm {
 public:
  const char* name() const override { return "autocapper"; }

  int64_t WorkingBytes(const Instance& instance) const override {
    const int64_t most = StoreAllPeakBytes(instance.chain());
    return MakeRotor()->WorkingBytes(WithMemory(instance, most));
  }

  absl::StatusOr<std::optional<LeastPlan>> FindLeast(const Instance& instance,
                                                     const SolveContext& context) const override {
    // Keeps the lowest peak of all sequences, each without offloads and with as many as possible.
    std::optional<LeastPlan> least;
    TransferPlacement placement(instance.chain(), instance.platform());
    const auto fits = [&](const ComputeSequence& sequence, const Capper& capper) {
      const int64_t bytes = capper.PeakBytes();
      if (!placement.Place(sequence, capper.choices(), bytes).has_value()) return false;
      if (!least.has_value() || bytes < least->memory_bytes) {
        least = LeastPlan{bytes, placement.ToSchedule(sequence)};
      }
      return true;
    };
    // A limited host may be full before the last offload, so there every step is tried.
    const bool host_limited = instance.platform().host_memory_bytes > 0;
    const auto consider = [&](const ComputeSequence& sequence) -> absl::Status {
      Capper capper(instance, sequence);
      bool host_has_room = true;
      while (host_has_room && capper.LowerPeak()) {
        RETURN_IF_ERROR(context.CheckStop());
        if (host_limited) host_has_room = fits(sequence, capper);
      }
      fits(sequence, Capper(instance, sequence));
      if (host_has_room) fits(sequence, capper);
      return absl::OkStatus();
    };
    // With a budget below rotor's least memory the limits start there.
    RETURN_IF_ERROR(ForEachSequence(instance, 0, context, consider));
    return least;
  }

  absl::StatusOr<std::optional<Schedule>> Find(const Instance& instance, int64_t memory_bytes,
                                               const SolveContext& context) const override {
    std::optional<Schedule> best;
    double best_seconds = 0;
    TransferPlacement placement(instance.chain(), instance.platform());
    const auto consider = [&](const ComputeSequence& sequence) -> absl::Status {
      Capper capper(instance, sequence);
      // The peaks are estimates: Place() decides whether the sequence fits, so it runs even when no
      // further value can be offloaded.
      while (capper.PeakBytes() > memory_bytes && capper.LowerPeak()) {
        RETURN_IF_ERROR(context.CheckStop());
      }
      const std::optional<double> seconds =
          placement.Place(sequence, capper.choices(), memory_bytes);
      if (!seconds.has_value() || (best.has_value() && *seconds >= best_seconds)) {
        return absl::OkStatus();
      }
      best_seconds = *seconds;
      best = placement.ToSchedule(sequence);
      if (context.improved) context.improved({*best, name(), Guarantee::kHeuristic, {}});
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(ForEachSequence(instance, memory_bytes, context, consider));
    return best;
  }

 private:
  // Calls `consider` with rotor's sequence for each of the limits, all from one solve.
  template <typename Consider>
  absl::Status ForEachSequence(const Instance& instance, int64_t memory_bytes,
                               const SolveContext& context, const Consider& consider) const {
    const std::unique_ptr<Solver> rotor = MakeRotor();
    SolveContext quiet = context;
    quiet.progress = nullptr;
    quiet.improved = nullptr;
    ASSIGN_OR_RETURN(const std::optional<int64_t> least, rotor->LeastBytes(instance, quiet));
    if (!least.has_value()) return absl::OkStatus();
    const int64_t most = std::max(*least, StoreAllPeakBytes(instance.chain()));
    std::vector<int64_t> limits = Limits(std::clamp(memory_bytes, *least, most), most);
    // Without a link a sequence for more memory never fits.
    if (!instance.platform().has_link()) limits.resize(1);
    quiet.lowest_bytes = limits.front();
    const Instance roomy = WithMemory(instance, most);
    ASSIGN_OR_RETURN(const std::unique_ptr<const Solution> solution, rotor->Solve(roomy, quiet));
    for (const int64_t limit : limits) {
      ASSIGN_OR_RETURN(const std::optional<Candidate> candidate,
                       solution->ScheduleWithin(limit, quiet));
      if (!candidate.has_value()) continue;
      RETURN_IF_ERROR(consider(SequenceOf(instance.chain(), candidate->schedule)));
    }
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Solver> MakeAutocapper() {
  return MakeBudgetSolver(std::make_unique<Autocapper>());
}

}  // namespace stowage
