// The instances of a request that solvers see (solver/README.md, "Discretization"), each built
// once.
#ifndef STOWAGE_SOLVER_SOLVE_REQUEST_INSTANCES_H_
#define STOWAGE_SOLVER_SOLVE_REQUEST_INSTANCES_H_

#include <memory>
#include <utility>

#include "solver/model/chain_units.h"
#include "solver/model/instance.h"
#include "solver/model/request.h"

namespace stowage {

// Immutable, thread-safe. Requires of the constructors: RequestViolations(request) is empty.
class RequestInstances {
 public:
  explicit RequestInstances(const SolveRequest& request)
      : RequestInstances(request, std::make_shared<const Instance>(Instance::Rounded(request))) {}
  // For a request whose rounded instance exists already: a cache key was made of it.
  RequestInstances(const SolveRequest& request, std::shared_ptr<const Instance> rounded)
      : rounded_(std::move(rounded)), exact_sizes_(Instance::ExactSizes(request)) {}

  // Sizes in granules, times on the request's grid: what is solved first.
  const Instance& rounded() const { return *rounded_; }
  // Sizes in bytes: solved where exact times are requested, or where only the rounding of sizes
  // makes the budget infeasible.
  const Instance& exact_sizes() const { return exact_sizes_; }
  // Of the request's chain.
  const ChainUnits& units() const { return rounded_->units(); }

  // The same with another option.
  RequestInstances WithMemorySlots(int64_t slots) const {
    RequestInstances copy = *this;
    copy.rounded_ = std::make_shared<const Instance>(rounded_->WithMemorySlots(slots));
    copy.exact_sizes_ = exact_sizes_.WithMemorySlots(slots);
    return copy;
  }

 private:
  std::shared_ptr<const Instance> rounded_;
  Instance exact_sizes_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_REQUEST_INSTANCES_H_
