#include "client/torch/profile/device_budget.h"

namespace stowage {

MemoryBudget BudgetOf(const TorchStages& stages, const BudgetOptions& options) {
  MemoryBudget budget;
  budget.device_bytes = options.device_bytes;
  budget.context_bytes = options.context_bytes;
  for (const at::Tensor& parameter : stages.Parameters()) {
    const auto bytes = static_cast<int64_t>(parameter.nbytes());
    budget.weight_bytes += bytes;
    if (!parameter.requires_grad()) continue;
    budget.gradient_bytes += bytes;
    budget.optimizer_bytes += options.optimizer_copies * bytes;
  }
  // Twice: a step keeps a copy of their content for recomputations.
  for (const at::Tensor& buffer : stages.Buffers()) {
    budget.weight_bytes += 2 * static_cast<int64_t>(buffer.nbytes());
  }
  budget.margin_bytes =
      static_cast<int64_t>(options.margin * static_cast<double>(options.device_bytes));
  return budget;
}

}  // namespace stowage
