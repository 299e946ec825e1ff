#include "solver/algorithms/modes/by_graph_mode.h"

#include <optional>
#include <utility>

namespace stowage {
namespace {

class ByGraphMode final : public Solver {
 public:
  ByGraphMode(std::shared_ptr<const Solver> plain, std::unique_ptr<const Solver> modes)
      : plain_(std::move(plain)), modes_(std::move(modes)) {}

  int64_t WorkingBytes(const Instance& instance) const override {
    return SolverOf(instance).WorkingBytes(instance);
  }
  int64_t WorkingBytesWithin(const Instance& instance, int64_t max_bytes) const override {
    return SolverOf(instance).WorkingBytesWithin(instance, max_bytes);
  }
  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    return SolverOf(instance).LeastBytes(instance, context);
  }
  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    return SolverOf(instance).Solve(instance, context);
  }

 private:
  const Solver& SolverOf(const Instance& instance) const {
    return instance.units().HasGraph() ? *modes_ : *plain_;
  }

  const std::shared_ptr<const Solver> plain_;
  const std::unique_ptr<const Solver> modes_;
};

}  // namespace

std::unique_ptr<Solver> MakeByGraphMode(std::shared_ptr<const Solver> plain,
                                        std::unique_ptr<const Solver> modes) {
  return std::make_unique<ByGraphMode>(std::move(plain), std::move(modes));
}

}  // namespace stowage
