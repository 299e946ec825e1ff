// What a network, its gradients and its optimizer leave of a device's memory.
#ifndef STOWAGE_CLIENT_TORCH_PROFILE_DEVICE_BUDGET_H_
#define STOWAGE_CLIENT_TORCH_PROFILE_DEVICE_BUDGET_H_

#include <cstdint>

#include "client/torch/stages/torch_stages.h"

namespace stowage {

// How a device's memory is used, and what is left for activations and their gradients.
struct MemoryBudget {
  int64_t device_bytes = 0;     // total
  int64_t context_bytes = 0;    // used by the driver, libraries and other processes
  int64_t weight_bytes = 0;     // parameters, and buffers with the copies that recomputations read
  int64_t gradient_bytes = 0;   // of the trained parameters
  int64_t optimizer_bytes = 0;  // the optimizer's state
  int64_t margin_bytes = 0;     // for fragmentation and unforeseen allocations

  int64_t activation_bytes() const {  // negative if nothing is left
    return device_bytes - context_bytes - weight_bytes - gradient_bytes - optimizer_bytes -
           margin_bytes;
  }
};

struct BudgetOptions {
  int64_t device_bytes = 0;
  int64_t context_bytes = 0;
  // Numbers of optimizer state for each trained number: 0 for plain gradient descent, 1 with
  // momentum, 2 for Adam.
  int optimizer_copies = 0;
  double margin = 0.02;  // a fraction of device_bytes
};
MemoryBudget BudgetOf(const TorchStages& stages, const BudgetOptions& options);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_PROFILE_DEVICE_BUDGET_H_
