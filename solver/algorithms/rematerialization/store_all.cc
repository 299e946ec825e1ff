#include "solver/algorithms/rematerialization/store_all.h"

#include <optional>

#include "solver/bounds/memory_range.h"

namespace stowage {
namespace {

// One schedule for every budget of at least its peak.
class StoreAllSolution final : public Solution {
 public:
  explicit StoreAllSolution(const Chain& chain)
      : schedule_(StoreAllSchedule(chain)), peak_bytes_(StoreAllPeakBytes(chain)) {}

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(int64_t memory_bytes,
                                                          const SolveContext&) const override {
    if (memory_bytes < peak_bytes_) return std::optional<Candidate>();
    // Guarantee::kOptimal: its compute time is a lower bound for every schedule.
    return Candidate{schedule_, "store_all", Guarantee::kOptimal, {}};
  }

 private:
  Schedule schedule_;
  int64_t peak_bytes_;
};

class StoreAll final : public Solver {
 public:
  int64_t WorkingBytes(const Instance& instance) const override {
    constexpr int64_t kBytesPerStage = 2 * sizeof(Operation);
    return (instance.chain().length() + 1) * kBytesPerStage;
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext&) const override {
    return StoreAllPeakBytes(instance.chain());
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(const Instance& instance,
                                                        const SolveContext&) const override {
    return std::make_unique<StoreAllSolution>(instance.chain());
  }
};

}  // namespace

Schedule StoreAllSchedule(const Chain& chain) {
  Schedule schedule;
  const int loss = chain.length() + 1;
  for (int l = 1; l <= loss; ++l) schedule.operations.push_back({OperationKind::kForwardSave, l});
  for (int l = loss; l >= 1; --l) schedule.operations.push_back({OperationKind::kBackward, l});
  return schedule;
}

std::unique_ptr<Solver> MakeStoreAll() { return std::make_unique<StoreAll>(); }

}  // namespace stowage
