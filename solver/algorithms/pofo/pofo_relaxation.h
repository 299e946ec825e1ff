// Estimates of what the rest of a POFO plan loses at least: two relaxations of the program in
// pofo_program.h, which guide its beam search. Both are filled from the loss back to stage 1, on
// grids, and read by linear interpolation.
//
//   fluid  Every byte on the device may be offloaded while the link is free, kept or not, so A and
//          the transfers merge into one quantity: y = A + ΔF in the forward phase,
//          y = A + ΔB in the backward phase.
//            R(i,x,y) = min over parts of (seconds lost in the part) + R(j+1, x', y')
//          with y' = [y + I - DF]+ where I may move, [y - DF]+ + I where it may not, and
//          likewise [y - DB]+ + I in the backward phase.
//   grid   The exact steps of one phase, without the other: over (A, ΔF), and over (A, ΔB).
//            R(i,x,A,Δ) = min over parts, and over keeping or offloading I, of
//                         (seconds lost in the part) + R(j+1, x', A', Δ')
//
// Each relaxation has one table a phase, and the larger value counts. Neither guide is enough
// alone: fluid is far too low where kept values fill the device, grid is far too low where values
// are small against its cells. Interpolation makes both estimates rather than bounds.
// The letters are those of pofo_steps.h.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_RELAXATION_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_RELAXATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/pofo/pofo_steps.h"
#include "solver/algorithms/solver.h"

namespace stowage {

// What earlier parts of a plan leave to the later ones, in bytes.
struct PofoLoad {
  int64_t kept = 0;      // A
  double leaving = 0;    // ΔF
  double returning = 0;  // ΔB
};

// Borrows the steps. Immutable after Build(), thread-safe.
class PofoRelaxation {
 public:
  struct Options {
    int kept_points = 12;      // of the grid's axis A
    int moving_points = 24;    // of its axis ΔF, or ΔB
    double limit_seconds = 0;  // parts that lose as much or more are left out
  };

  // O(stages² · points) at most. Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<PofoRelaxation> Build(const PofoSteps& steps, const Options& options,
                                              const SolveContext& context);

  // The largest A, in bytes, with which a plan can go on from there, whatever time it takes.
  // Negative: no plan can.
  int64_t MostKept(PofoPosition at) const { return max_kept_[Row(at)]; }
  // Estimates of the seconds lost from stage i on. Requires: load.kept <= MostKept(at).
  double Fluid(PofoPosition at, const PofoLoad& load) const;
  double Grid(PofoPosition at, const PofoLoad& load) const;
  // The least that Fluid() and Grid() say there for any load. Require: MostKept(at) >= 0.
  double LeastFluid(PofoPosition at) const;
  double LeastGrid(PofoPosition at) const;

 private:
  // Linear interpolation along evenly spaced points, of which the first stands for 0 bytes.
  struct Line {
    const float* points = nullptr;
    double points_per_byte = 0;
    int last = 0;  // index of the last point but one

    double ValueAt(double bytes) const;
  };
  // Bilinear interpolation: between two lines that stand for neighbouring values of A.
  struct Strip {
    Line low;
    Line high;
    double share = 0;  // 0 at `low`, 1 at `high`
    bool feasible = false;

    double ValueAt(double bytes) const;
  };
  // The rows that a step leads to; both infeasible after the loss.
  struct Successors {
    Strip keep;          // its input is kept
    Strip offload = {};  // its input is offloaded

    double ValueAt(double kept_load, double offloaded_load) const;  // the lesser of the two
  };
  // One step from one row of a grid: before stage i, `kept` bytes of A.
  struct GridStep {
    PofoPosition at;
    int64_t kept = 0;
    const PofoStep& step;
    double recompute_seconds = 0;  // with nothing to be prefetched; 0 for a saved stage
  };

  PofoRelaxation(const PofoSteps& steps, const Options& options);

  void FillMostKept(PofoPosition at);
  void FillFluid(PofoPosition at);
  bool FluidLoses(const PofoPart& part) const;
  bool GridLoses(const PofoPart& part) const;
  void LowerFluidLeaving(PofoPosition at, const PofoStep& step, double recompute_seconds);
  void LowerFluidReturning(PofoPosition at, const PofoStep& step, double recompute_seconds);
  void FillGrid(PofoPosition at);
  void FillLeast(PofoPosition at);
  void LowerLeaving(const GridStep& grid_step, float* row) const;
  void LowerReturning(const GridStep& grid_step, float* row) const;

  static size_t Row(PofoPosition at) {
    return static_cast<size_t>(at.i - 1) * 2 + static_cast<size_t>(at.x);
  }
  // Offset of the points of one row and one value of A.
  size_t Begin(size_t row, int kept_point) const {
    return (row * static_cast<size_t>(kept_points_) + static_cast<size_t>(kept_point)) *
           static_cast<size_t>(moving_points_);
  }
  // The axis A runs from 0 to MostKept(); the axis ΔF, or ΔB, from 0 to the room that memory has
  // beside A and I.
  double KeptAt(size_t row, int point) const {
    return static_cast<double>(max_kept_[row]) * point / (kept_points_ - 1);
  }
  double Room(PofoPosition at, double kept) const {
    return static_cast<double>(memory_ - steps_.InputBytes(at)) - kept;
  }
  Successors SuccessorsOf(const GridStep& grid_step, const std::vector<float>& points) const;
  void FillScales(PofoPosition at);
  Line GridLine(const std::vector<float>& points, size_t row, int kept_point) const;
  Line FluidLine(const std::vector<float>& points, PofoPosition at) const;
  Strip StripAt(const std::vector<float>& points, PofoPosition at, double kept) const;

  const PofoSteps& steps_;
  const int loss_;
  const int64_t memory_;
  const double limit_;
  const int kept_points_;
  const int moving_points_;
  std::vector<PofoPart> parts_;         // that begin at the stage that is being filled
  std::vector<int64_t> max_kept_;       // by row
  std::vector<float> leaving_;          // grid by row, A and ΔF
  std::vector<float> returning_;        // grid by row, A and ΔB
  std::vector<double> grid_scales_;     // by row and A: points for each byte of ΔF, or ΔB
  std::vector<double> fluid_scales_;    // by row: points for each byte of y
  std::vector<float> least_leaving_;    // by row: the least of leaving_
  std::vector<float> least_returning_;  // likewise
  std::vector<float> fluid_leaving_;    // by row and A + ΔF
  std::vector<float> fluid_returning_;  // by row and A + ΔB
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_RELAXATION_H_
