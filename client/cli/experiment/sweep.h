// The parameters of `stowage experiment`: budgets, bandwidths and solvers.
#ifndef STOWAGE_CLIENT_CLI_EXPERIMENT_SWEEP_H_
#define STOWAGE_CLIENT_CLI_EXPERIMENT_SWEEP_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stowage {

// Presets from the papers.
enum class Experiment {
  kFree,     // no preset
  kFigure2,  // POFO (NeurIPS 2021): overheads by memory
  kFigure3,  // POFO: overheads by bandwidth
  kRatio,    // offloading (Euro-Par 2020), section 6.3: ratio to the lower bound by memory
};

struct Sweep {
  std::vector<double> alphas;      // shares of the range from M_low to M_high: 0..1
  std::vector<double> reductions;  // more budgets: M_high divided by these, 1 or more
  std::vector<double> bandwidths;  // GB/s
  std::vector<std::string> solvers;

  size_t budgets() const { return alphas.size() + reductions.size(); }
};

// Texts of the flags; an empty one means the default of the experiment.
struct SweepFlags {
  std::string figure = {};  // "2", "3", "ratio"
  std::string alphas = {};
  std::string reductions = {};
  std::string bandwidths = {};
  std::string solvers = {};
};

// The experiment of --figure, kFree for "". Requires: it is one of the above.
Experiment ExperimentOf(absl::string_view figure);

// The name of its files: "figure2", "figure3", "ratio", "sweep".
std::string NameOf(Experiment experiment);

// The experiment's sweep, overridden by the flags. The default solvers are the paper's, as far as
// the catalog has them; of kFree all that recompute or offload, save those whose schedules another
// solver of the list covers (SolverInfo::inside_of). --reductions without --alphas means no alphas.
// Errors: INVALID_ARGUMENT names the flag.
absl::StatusOr<Sweep> ReadSweep(const SweepFlags& flags);

// "0.2,0.5", "0:1:0.05" (first:last:step) or both, separated by commas: distinct, ascending.
// Errors: INVALID_ARGUMENT with the accepted forms; numbers must be from 0 to `most`.
absl::StatusOr<std::vector<double>> ParseNumbers(absl::string_view text, double most);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_EXPERIMENT_SWEEP_H_
