#include "solver/algorithms/offload/vdnn.h"

#include <algorithm>
#include <vector>

#include "solver/algorithms/offload/stored_chain.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr size_t kMaxThresholds = 1000;

struct Ranked {
  int value = 0;
  double ratio = 0;  // seconds per byte
};

class OffloadVdnn final : public StoringAlgorithm {
 public:
  const char* name() const override { return "offload_vdnn"; }

  absl::StatusOr<std::optional<Schedule>> Find(const Instance& instance, int64_t memory_bytes,
                                               const SolveContext& context) const override {
    StoredChain chain(instance);
    std::vector<Ranked> ranked;
    for (int l = 0; l <= instance.chain().length(); ++l) {
      if (!chain.MayMove(l)) continue;
      ranked.push_back(
          {l, instance.chain().stage(l + 1).forward_seconds / static_cast<double>(chain.Bytes(l))});
    }
    // The highest ratio first; a total order, so that the result is deterministic.
    std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
      return a.ratio != b.ratio ? a.ratio > b.ratio : a.value < b.value;
    });
    // A threshold moves the `count` values with the highest ratios: all of them, or every other
    // one.
    std::optional<Schedule> best;
    double best_seconds = 0;
    // Long chains try only every stride-th threshold, and always the lowest, which moves every
    // value.
    const size_t stride = 1 + ranked.size() / kMaxThresholds;
    for (size_t left = ranked.size() / stride + 1; left > 0; --left) {
      const size_t count = ranked.size() - (left - 1) * stride;
      // Values with equal ratios belong to the same thresholds.
      if (count > 0 && count < ranked.size() && ranked[count].ratio == ranked[count - 1].ratio) {
        continue;
      }
      RETURN_IF_ERROR(context.CheckStop());
      std::vector<bool> all(static_cast<size_t>(instance.chain().length()) + 1);
      for (size_t i = 0; i < count; ++i) all[static_cast<size_t>(ranked[i].value)] = true;
      for (const std::vector<bool>& moved : {all, EveryOther(all)}) {
        const std::optional<double> seconds = chain.Place(moved, memory_bytes);
        if (!seconds.has_value() || (best.has_value() && *seconds >= best_seconds)) continue;
        best_seconds = *seconds;
        best = chain.ToSchedule();
      }
    }
    return best;
  }

 private:
  // Keeps the first, third, ... of the moved values.
  static std::vector<bool> EveryOther(std::vector<bool> moved) {
    bool take = false;
    for (size_t l = 0; l < moved.size(); ++l) {
      if (!moved[l]) continue;
      take = !take;
      moved[l] = take;
    }
    return moved;
  }
};

}  // namespace

std::unique_ptr<Solver> MakeOffloadVdnn() {
  return MakeBudgetSolver(std::make_unique<OffloadVdnn>());
}

}  // namespace stowage
