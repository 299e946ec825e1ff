// The input of a solver: a request's chain and platform in canonical form. Names are removed, every
// optional size is filled in, graph costs remain only where a stage can run in graph mode, and
// groups only of several stages. Requests with equal instances have equal answers.
//
// Rounding (solver/README.md, "Discretization"): sizes go up to whole granules of
// memory_bytes / 2^20 (at least one byte) and the memory limits down, so that what fits the
// instance fits the request; times and bandwidths go to the nearest point of a relative grid.
// Immutable after construction, so thread-safe.
#ifndef STOWAGE_SOLVER_MODEL_INSTANCE_H_
#define STOWAGE_SOLVER_MODEL_INSTANCE_H_

#include <cstdint>

#include "solver/model/chain.h"
#include "solver/model/chain_units.h"
#include "solver/model/platform.h"
#include "solver/model/request.h"

namespace stowage {

class Instance {
 public:
  // Rounded sizes, and times rounded to request.options.time_precision.
  // All three require: Violations(request) is empty. O(stages).
  static Instance Rounded(const SolveRequest& request);
  // Exact sizes, times rounded to request.options.time_precision.
  static Instance ExactSizes(const SolveRequest& request);
  // Exact sizes and times.
  static Instance Exact(const SolveRequest& request);

  // Bytes and seconds; every size and memory limit is a multiple of granule_bytes().
  const Chain& chain() const { return chain_; }
  const ChainUnits& units() const { return units_; }  // of chain() and of the request's chain
  const Platform& platform() const { return platform_; }
  const SolveOptions& options() const { return options_; }

  int64_t granule_bytes() const { return granule_bytes_; }
  bool sizes_rounded() const { return sizes_rounded_; }  // some size is not the request's
  bool times_rounded() const { return times_rounded_; }  // some time or bandwidth is not

  // Copies that differ in the slots, the chain (whose sizes must be multiples of the granule) or
  // the budget. WithChain() also resets option `segments` where the new chain has fewer stages.
  Instance WithMemorySlots(int64_t memory_slots) const;
  Instance WithChain(Chain chain) const;
  Instance WithMemory(int64_t memory_bytes) const;

 private:
  Instance(const SolveRequest& request, int64_t granule_bytes, double time_precision);

  Chain chain_;
  ChainUnits units_;
  Platform platform_;
  SolveOptions options_;
  int64_t granule_bytes_;
  bool sizes_rounded_ = false;
  bool times_rounded_ = false;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_INSTANCE_H_
