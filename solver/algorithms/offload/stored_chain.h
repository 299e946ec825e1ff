// A chain in which every stage is saved and some values are offloaded: the setting of the
// offloading paper (Euro-Par 2020). The paper's tensors x_i are values 0 and ā^1 .. ā^L here.
#ifndef STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_STORED_CHAIN_H_
#define STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_STORED_CHAIN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/by_budget.h"
#include "solver/algorithms/transfers/compute_sequence.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/model/chain.h"
#include "solver/model/instance.h"
#include "solver/model/schedule.h"

namespace stowage {

// Borrows the instance. Not thread-safe.
class StoredChain {
 public:
  explicit StoredChain(const Instance& instance);

  // Whether value l, 0..L, may be on the host between its forward and its backward.
  bool MayMove(int l) const { return gap_of_[static_cast<size_t>(l)] >= 0; }
  // The size of value l; 0 if it may not move.
  int64_t Bytes(int l) const;

  // Builds the no-wait schedule that offloads the values for which `moved` is true, as far as
  // memory needs it. Returns its makespan in seconds, or nullopt if it does not fit. Cost: as
  // TransferPlacement::Place().
  std::optional<double> Place(const std::vector<bool>& moved, int64_t memory_bytes);
  // The schedule of the last Place(), which must have succeeded.
  Schedule ToSchedule() const { return placement_.ToSchedule(sequence_); }

 private:
  ComputeSequence sequence_;
  std::vector<int> gap_of_;  // by value; -1: it may not move
  std::vector<GapChoice> choices_;
  TransferPlacement placement_;
};

// The base of the paper's algorithms. Their least plan is that of any schedule without
// recomputation.
class StoringAlgorithm : public BudgetAlgorithm {
 public:
  int64_t WorkingBytes(const Instance& instance) const override;
  absl::StatusOr<std::optional<LeastPlan>> FindLeast(const Instance& instance,
                                                     const SolveContext& context) const override;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_STORED_CHAIN_H_
