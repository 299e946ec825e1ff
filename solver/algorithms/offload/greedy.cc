#include "solver/algorithms/offload/greedy.h"

#include <vector>

#include "solver/algorithms/offload/stored_chain.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"

namespace stowage {
namespace {

class OffloadGreedy final : public StoringAlgorithm {
 public:
  const char* name() const override { return "offload_greedy"; }

  absl::StatusOr<std::optional<Schedule>> Find(const Instance& instance, int64_t memory_bytes,
                                               const SolveContext& context) const override {
    StoredChain chain(instance);
    const int length = instance.chain().length();
    // M_peak - M: what must be off the device at the peak.
    const int64_t excess = StoreAllPeakBytes(instance.chain()) - memory_bytes;
    std::vector<bool> moved(static_cast<size_t>(length) + 1);
    int64_t bytes = 0;
    if (excess <= 0 && chain.Place(moved, memory_bytes).has_value()) return chain.ToSchedule();
    // Add one value at a time until the schedule fits.
    for (int l = 0; l <= length; ++l) {
      if (!chain.MayMove(l)) continue;
      moved[static_cast<size_t>(l)] = true;
      bytes += chain.Bytes(l);
      if (bytes < excess) continue;  // cannot fit: not enough memory is freed
      RETURN_IF_ERROR(context.CheckStop());
      if (chain.Place(moved, memory_bytes).has_value()) return chain.ToSchedule();
    }
    return std::optional<Schedule>();
  }
};

}  // namespace

std::unique_ptr<Solver> MakeOffloadGreedy() {
  return MakeBudgetSolver(std::make_unique<OffloadGreedy>());
}

}  // namespace stowage
