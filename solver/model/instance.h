// What solvers see: a request's chain and platform in canonical form, without names, every optional
// size filled in, graph costs and fusion groups only where a stage can run in graph mode. Two
// requests that round to one instance get one answer.
//
// Rounding (solver/README.md, "Discretization"): sizes go up to whole granules of
// memory_bytes / 2^20 (at least one byte) and the memory limits down, so that what fits the
// instance fits the request; times and bandwidths go to the nearest point of a relative grid.
// Immutable after construction, so thread-safe.
#ifndef STOWAGE_SOLVER_MODEL_INSTANCE_H_
#define STOWAGE_SOLVER_MODEL_INSTANCE_H_

#include <cstdint>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/request.h"

namespace stowage {

class Instance {
 public:
  // Rounded sizes, and times rounded to request.options.time_precision.
  // Requires of both: Violations(request) is empty.
  static Instance Rounded(const SolveRequest& request);
  // The sizes as they are, and times rounded likewise.
  static Instance ExactSizes(const SolveRequest& request);
  // The sizes and times of the request as they are.
  static Instance Exact(const SolveRequest& request);

  // Bytes and seconds; every size and memory limit is a multiple of granule_bytes().
  const Chain& chain() const { return chain_; }
  const Platform& platform() const { return platform_; }
  const SolveOptions& options() const { return options_; }

  int64_t granule_bytes() const { return granule_bytes_; }
  bool sizes_rounded() const { return sizes_rounded_; }  // some size is not the request's
  bool times_rounded() const { return times_rounded_; }  // some time or bandwidth is not

  // The same instance with other slots, another chain in the same granules, another budget.
  Instance WithMemorySlots(int64_t memory_slots) const;
  Instance WithChain(Chain chain) const;
  Instance WithMemory(int64_t memory_bytes) const;

 private:
  Instance(const SolveRequest& request, int64_t granule_bytes, double time_precision);

  Chain chain_;
  Platform platform_;
  SolveOptions options_;
  int64_t granule_bytes_;
  bool sizes_rounded_ = false;
  bool times_rounded_ = false;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_INSTANCE_H_
