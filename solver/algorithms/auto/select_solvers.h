// Which solvers `auto` runs on a plain chain, and with how many memory slots, so that all of them
// fit the memory that one solve may allocate.
#ifndef STOWAGE_SOLVER_ALGORITHMS_AUTO_SELECT_SOLVERS_H_
#define STOWAGE_SOLVER_ALGORITHMS_AUTO_SELECT_SOLVERS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "solver/algorithms/solver.h"
#include "solver/model/instance.h"

namespace stowage {

// With fewer slots, a dynamic program loses more to rounding than it gains.
inline constexpr int64_t kMinUsefulSlots = 50;

struct SelectedSolver {
  const SolverInfo* info = nullptr;  // borrowed from the catalog
  std::unique_ptr<Solver> solver;
  Instance instance;  // with as many memory slots as fit
};

struct SolverSelection {
  std::vector<SelectedSolver> solvers;  // in the order in which they run
  std::vector<std::string> notes;       // solvers that were left out or got fewer slots
  int64_t spare_bytes = 0;              // left beside all tables that stay
};

// Selects all of `solvers` that apply to a plain chain, as far as `working_bytes` allows. Solvers
// that mix modes are skipped, and those that offload where the platform has no link.
//
// Solutions of solvers that do not offload hold their tables, all at the same time; the others hold
// schedules only and need working memory only while they run. So the latter run last, unless the
// tables leave too little for one of them: then they run first. Pure, thread-safe.
SolverSelection SelectSolvers(std::span<const SolverInfo> solvers, const Instance& instance,
                              int64_t working_bytes);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_AUTO_SELECT_SOLVERS_H_
