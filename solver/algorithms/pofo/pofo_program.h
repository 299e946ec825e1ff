// POFO's dynamic program (NeurIPS 2021, appendix B), solved by a beam search instead of its
// four-dimensional table. It decides how to cut the chain into parts, which inputs of parts to
// offload, and how to recompute each part, so that the relaxed makespan is least: the makespan if
// copies freed and took device memory continuously while they run.
//
// Letters: those of pofo_steps.h, with m_all, m_B and m_∅ as in solver/README.md, "Memory needs".
// A state before stage i is (x, A, ΔF, ΔB) and g, the seconds lost so far. With mem = M - A - I:
//   save i         εF = [m_all(i) - mem + ΔF]+ / βo   εB = [m_B(i) - mem + ΔB]+ / βp
//                  DF = βo (uF_i + εF)                DB = βp (uB_i + εB)
//   recompute [i..j], i <= j <= L
//                  εF = [max_k (m_∅(k) - βo Σ_{h=i}^{k-1} uF_h) - mem + ΔF]+ / βo
//                  C  = C_Δ(i,j,A+I,ΔB)               (part_sequences.h)
//                  DF = βo (Σ_{i..j} uF + εF)         DB = βp C
//   keep I         A + I,  [ΔF - DF]+,      [ΔB - DB]+
//   offload I      A,      [ΔF + I - DF]+,  [ΔB - DB]+ + I
// The loss is saved, its input kept, and what is left then costs ΔF/βo + ΔB/βp. Departures from the
// paper are in solver/README.md, "POFO's equations, corrected".
//
// Search: forward over the stages, in exact bytes; each (i, x) keeps the `width` best states. A
// state's rank is g plus a relaxation's estimate of the rest (pofo_relaxation.h); each of the two
// relaxations guides a search of its own. State 1 dominates state 2 when A1 <= A2 and
//   g1 + [ΔF1 - ΔF2]+ / βo + [ΔB1 - ΔB2]+ / βp <= g2,
// since waiting turns state 1 into one that is no worse than state 2.
//
// A transfer's latency counts as the bytes that the link would carry in that time. no_recompute
// stages are always saved, no_offload values always kept, and host memory is never exceeded.
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

// One partition of the chain that the program found.
struct RelaxedPlan {
  double lost_seconds = 0;  // relaxed makespan less one forward and backward of every stage
  std::vector<ForwardPart> parts;
};

// Borrows its arguments. Immutable, thread-safe.
class PofoProgram {
 public:
  // Which states are dropped once they reach max_lost_seconds.
  enum class Pruning {
    kByEstimate,  // by g plus the estimate of the rest; that may be too high and lose a good plan
    kByLoss       // by g alone
  };
  struct Options {
    int64_t memory_bytes = 0;  // M
    int width = 20;            // of the beam, for each (i, x)
    int kept_points = 12;      // of the relaxation's axis A
    int moving_points = 24;    // of its axes ΔF and ΔB
    Pruning pruning = Pruning::kByEstimate;
    double max_lost_seconds = 0;  // only plans that lose less are wanted
    // One search for each: the seconds charged, when states are ranked, for each second of copying
    // to the host. The relaxation has many equally good plans, and each penalty picks another.
    std::vector<double> offload_penalties = {0.003};
  };

  PofoProgram(const Chain& chain, const Platform& platform, const PartSequences& sequences);

  // At most one plan for each guide and penalty. O(L²) steps for each state kept.
  // Errors: CANCELLED once context.stop is set.
  absl::StatusOr<std::vector<RelaxedPlan>> Solve(const Options& options,
                                                 const SolveContext& context) const;

 private:
  const Chain& chain_;
  const Platform& platform_;
  const PartSequences& sequences_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_PROGRAM_H_
