#include "solver/algorithms/modes/mixed_mode.h"

#include <algorithm>
#include <optional>

#include "solver/algorithms/modes/mixed_minimum.h"
#include "solver/algorithms/modes/mixed_solution.h"
#include "solver/algorithms/rematerialization/rotor.h"
#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

// Delegates chains without a graph mode to rotor, under this solver's name.
class MixedSolver final : public Solver {
 public:
  explicit MixedSolver(SplitProgram program)
      : program_(program), rotor_(MakePersistentSolver(NameOf(program), Saving::kAlways)) {}

  int64_t WorkingBytes(const Instance& instance) const override {
    if (!HasGraphMode(instance.chain())) return rotor_->WorkingBytes(instance);
    return MixedSolutionBytes(program_, instance);
  }

  // Room for a table of rotor's beside its own: with it, splits that slots only nearly fit are
  // fitted in bytes.
  int64_t WorkingBytesWithin(const Instance& instance, int64_t max_bytes) const override {
    const int64_t least = WorkingBytes(instance);
    if (!HasGraphMode(instance.chain())) return std::min(least, max_bytes);
    const int64_t rotor = MakeRotor()->WorkingBytes(instance);
    return std::min(max_bytes, CheckedAdd(least, rotor).value_or(INT64_MAX));
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    if (!HasGraphMode(instance.chain())) return rotor_->LeastBytes(instance, context);
    ASSIGN_OR_RETURN(const MixedMinimum minimum, MixedMinimum::Build(instance.chain(), context));
    // Storing everything is no solution by shares and may need less.
    return std::min(minimum.min_bytes(), FastestStored(instance.chain()).peak_bytes);
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    if (!HasGraphMode(instance.chain())) return rotor_->Solve(instance, context);
    return BuildMixedSolution(program_, instance, context);
  }

 private:
  const SplitProgram program_;
  const std::unique_ptr<Solver> rotor_;
};

}  // namespace

std::unique_ptr<Solver> MakeMixedMode() {
  return std::make_unique<MixedSolver>(SplitProgram::kConvex);
}

std::unique_ptr<Solver> MakeMixedModeExact() {
  return std::make_unique<MixedSolver>(SplitProgram::kExact);
}

}  // namespace stowage
