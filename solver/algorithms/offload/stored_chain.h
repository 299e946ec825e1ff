// A chain of which everything is saved and some values move to the host: what the offloading paper
// (Euro-Par 2020) considers, its tensors x_i being values 0, ā^1 .. ā^L here.
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

  // Value l, 0..L, may be on the host between its forward and its backward.
  bool MayMove(int l) const { return gap_of_[static_cast<size_t>(l)] >= 0; }
  // Its size; 0 where it never waits.
  int64_t Bytes(int l) const;

  // The no-wait schedule, transfers in order, that moves the values for which `moved` is true, of
  // those that memory asks for; its makespan, or nullopt when it does not fit.
  std::optional<double> Place(const std::vector<bool>& moved, int64_t memory_bytes);
  // Of the last Place().
  Schedule ToSchedule() const { return placement_.ToSchedule(sequence_); }

 private:
  ComputeSequence sequence_;
  std::vector<int> gap_of_;  // by value; -1: it stays
  std::vector<GapChoice> choices_;
  TransferPlacement placement_;
};

// What the algorithms of that paper share: they need as little as anything that saves every stage.
class StoringAlgorithm : public BudgetAlgorithm {
 public:
  int64_t WorkingBytes(const Instance& instance) const override;
  absl::StatusOr<std::optional<LeastPlan>> FindLeast(const Instance& instance,
                                                     const SolveContext& context) const override;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_STORED_CHAIN_H_
