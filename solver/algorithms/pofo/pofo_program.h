// POFO's dynamic program (NeurIPS 2021, appendix B) without its four-dimensional table: which parts
// to cut the chain into, which inputs to move to the host, how to run each part again, so that the
// relaxed makespan (memory freed and taken continuously while copies run) is least.
//
// A state before stage i: x (value i-1 is a^(i-1) or ā^(i-1); I its size), A (bytes kept on the
// device for good), ΔF (bytes that have yet to leave), ΔB (bytes that have to be back by the time
// that the gradient of value i-1 is there), and g, the seconds lost so far. With mem = M - A - I:
//   save i         εF = [m_all(i) - mem + ΔF]+ / βo   εB = [m_B(i) - mem + ΔB]+ / βp
//                  DF = βo (uF_i + εF)                DB = βp (uB_i + εB)
//   checkpoint i, part [i..j], i <= j <= L
//                  εF = [max_k (m_∅(k) - βo Σ_{h=i}^{k-1} uF_h) - mem + ΔF]+ / βo
//                  C  = C_Δ(i,j,A+I,ΔB)               (part_sequences.h)
//                  DF = βo (Σ_{i..j} uF + εF)         DB = βp C
//   keep I         A + I,  [ΔF - DF]+,      [ΔB - DB]+
//   offload I      A,      [ΔF + I - DF]+,  [ΔB - DB]+ + I
// and at the loss, saved like any other, the rest has to leave and to return: ΔF/βo + ΔB/βp more.
// A stage's own gradient does not exist in the forward phase; the paper counts it.
//
// The states are searched forward, in exact bytes, the most promising of each stage first (a beam).
// What makes one promising is g plus what a relaxation says of what is still to come; each of two
// has its turn (pofo_relaxation.h). Of two states one goes where the other cannot
// gain by it: A1 <= A2 and
//   g1 + [ΔF1 - ΔF2]+ / βo + [ΔB1 - ΔB2]+ / βp <= g2.
//
// A transfer's latency counts as the bytes that the link would carry meanwhile. no_recompute stages
// are in saved parts only, no_offload values are kept, and what is on the host never exceeds the
// platform's limit.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_PROGRAM_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/algorithms/solver.h"
#include "solver/algorithms/transfers/forward_parts.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// One cut of the chain into parts, as the program found it.
struct RelaxedPlan {
  double lost_seconds = 0;  // relaxed makespan less one forward and backward of every stage
  std::vector<ForwardPart> parts;
};

// Borrows all that it is given. Immutable, thread-safe.
class PofoProgram {
 public:
  struct Options {
    int64_t memory_bytes = 0;
    int width = 20;                  // states kept a stage and form of its input
    int kept_points = 12;            // of the relaxations' axes: of A
    int moving_points = 24;          // and of ΔF, or ΔB
    bool prunes_by_estimate = true;  // false: states with a poor promise wait, but stay
    double most_lost_seconds = 0;    // plans that lose as much or more are of no use
    // What a second of copying to the host counts as lost when states are compared; one search for
    // each. Of the relaxation's many equals each takes another.
    std::vector<double> offload_penalties = {0.003};
  };

  PofoProgram(const Chain& chain, const Platform& platform, const PartSequences& sequences);

  // At most one plan a penalty. Errors: CANCELLED once context.stop is set.
  absl::StatusOr<std::vector<RelaxedPlan>> Solve(const Options& options,
                                                 const SolveContext& context) const;

 private:
  const Chain& chain_;
  const Platform& platform_;
  const PartSequences& sequences_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_PROGRAM_H_
