#include "solver/algorithms/modes/mixed_mode.h"

#include <algorithm>
#include <optional>

#include "solver/algorithms/modes/by_graph_mode.h"
#include "solver/algorithms/modes/mixed_minimum.h"
#include "solver/algorithms/modes/mixed_solution.h"
#include "solver/algorithms/rematerialization/rotor.h"
#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Of chains with a graph mode.
class MixedSolver final : public Solver {
 public:
  explicit MixedSolver(SplitProgram program) : program_(program) {}

  int64_t WorkingBytes(const Instance& instance) const override {
    return MixedSolutionBytes(program_, instance);
  }

  // Room for a table of rotor's beside its own: with it, splits that slots only nearly fit are
  // fitted in bytes.
  int64_t WorkingBytesWithin(const Instance& instance, int64_t max_bytes) const override {
    const int64_t rotor = MakeRotor()->WorkingBytes(instance);
    return std::min(max_bytes, CheckedAdd(WorkingBytes(instance), rotor).value_or(INT64_MAX));
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    ASSIGN_OR_RETURN(const MixedMinimum minimum, MixedMinimum::Build(instance.chain(), context));
    // Storing everything is no solution by shares and may need less.
    return std::min(minimum.min_bytes(), FastestStored(instance).peak_bytes);
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    return BuildMixedSolution(program_, instance, context);
  }

 private:
  const SplitProgram program_;
};

// Chains without a graph mode are rotor's, under this solver's name.
std::unique_ptr<Solver> MakeBy(SplitProgram program) {
  return MakeByGraphMode(MakePersistentSolver(NameOf(program), Saving::kAlways),
                         std::make_unique<MixedSolver>(program));
}

}  // namespace

std::unique_ptr<Solver> MakeMixedMode() { return MakeBy(SplitProgram::kConvex); }

std::unique_ptr<Solver> MakeMixedModeExact() { return MakeBy(SplitProgram::kExact); }

}  // namespace stowage
