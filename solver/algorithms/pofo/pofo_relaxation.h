// What the rest of a POFO plan loses at least, nearly: two relaxations of pofo_program.h, filled
// from the end of the chain on grids and interpolated, that say which states are promising.
//   fluid  whatever is on the device may be gone while the link is free, kept or not: over A + ΔF
//   in
//          the forward phase, over A + ΔB in the backward phase
//   grid   exact steps, but that one phase forgets the other: over A and ΔF, and over A and ΔB
// The larger of the two phases counts. Neither relaxation will do alone: the fluid one is far off
// where kept values crowd the device, the grid where values are small against its cells.
// Interpolation makes both estimates, not bounds.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_RELAXATION_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_RELAXATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/pofo/pofo_steps.h"
#include "solver/algorithms/solver.h"

namespace stowage {

// A state's part in it.
struct PofoLoad {
  int64_t kept = 0;      // A
  double leaving = 0;    // ΔF
  double returning = 0;  // ΔB
};

// Borrows the steps. Immutable after Build(), thread-safe.
class PofoRelaxation {
 public:
  struct Options {
    int kept_points = 12;      // of the grid's axes: of A
    int moving_points = 24;    // and of ΔF, or ΔB
    double limit_seconds = 0;  // parts that by themselves take as long are of no use
  };

  // O(stages² · points) at most. Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<PofoRelaxation> Build(const PofoSteps& steps, const Options& options,
                                              const SolveContext& context);

  // The most that may be kept for good before stage i, whatever the time: with more no way leads
  // on. Negative: none does.
  int64_t Most(int i, int x) const { return most_[Row(i, x)]; }
  // Seconds lost from stage i on. Requires: load.kept is at most Most(i, x).
  double Fluid(int i, int x, const PofoLoad& load) const;
  double Grid(int i, int x, const PofoLoad& load) const;

 private:
  // Along a row of points that are evenly spaced from 0 on.
  struct Line {
    const float* points = nullptr;
    double points_per_byte = 0;
    int last = 0;  // the last point but one

    double At(double bytes) const;
  };
  // Between two such lines.
  struct Strip {
    Line low;
    Line high;
    double share = 0;  // of the way to the high one
    bool feasible = false;

    double At(double bytes) const;
  };

  // What follows a step whose input is kept, and one whose input moves; neither after the loss.
  struct After {
    Strip keep;
    Strip move = {};
  };

  PofoRelaxation(const PofoSteps& steps, const Options& options);

  void FillMost(int i, int x);
  void FillFluid(int i, int x);
  void LowerFluid(int i, int x, const PofoStep& step, double again);
  void FillGrid(int i, int x);
  void LowerLeaving(int i, int x, const PofoStep& step, int64_t kept, double again,
                    float* row) const;
  void LowerReturning(int i, int x, const PofoStep& step, int64_t kept, float* row) const;

  size_t Row(int i, int x) const { return static_cast<size_t>((i - 1) * 2 + x); }
  // The points of one row and one amount kept.
  size_t Begin(size_t row, int kept_point) const {
    return (row * static_cast<size_t>(kept_points_) + static_cast<size_t>(kept_point)) *
           static_cast<size_t>(moving_points_);
  }
  // A goes from 0 to the most that is feasible, ΔF or ΔB from 0 to what memory has room for then.
  double KeptAt(size_t row, int point) const {
    return static_cast<double>(most_[row]) * point / (kept_points_ - 1);
  }
  double Room(int i, int x, double kept) const {
    return static_cast<double>(memory_ - steps_.Input(i, x)) - kept;
  }
  After AfterStep(const std::vector<float>& points, int i, int x, const PofoStep& step,
                  int64_t kept) const;
  Line LineAt(const std::vector<float>& points, int i, int x, int kept_point) const;
  Line FluidAt(const std::vector<float>& points, int i, int x) const;
  Strip StripAt(const std::vector<float>& points, int i, int x, double kept) const;

  const PofoSteps& steps_;
  const int loss_;
  const int64_t memory_;
  const double limit_;
  const int kept_points_;
  const int moving_points_;
  std::vector<int64_t> most_;           // by row
  std::vector<float> leaving_;          // by row, A and ΔF: the grid that forgets ΔB
  std::vector<float> returning_;        // by row, A and ΔB: that which forgets ΔF
  std::vector<float> fluid_leaving_;    // by row and A + ΔF
  std::vector<float> fluid_returning_;  // by row and A + ΔB
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_RELAXATION_H_
