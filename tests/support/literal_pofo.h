// A literal implementation of the dynamic program of the POFO paper (NeurIPS 2021, appendix B): the
// tables OC_x(i, A, ΔF, ΔB) and C_Δ(i, j, A, Δ), each entry the minimum over all choices. It finds
// the fastest *relaxed* program: values are offloaded entirely, but memory is freed and taken byte
// by byte during a copy, and a copy may be interrupted. The reference for the quality of the fast
// solver, and the baseline of its benchmark. Shares no code with the solvers.
//
// Departures from the paper (solver/README.md, "POFO's equations, corrected"):
// - no gradient is counted in the forward phase, and δ^j throughout a recomputation of [i..j];
// - a part may end at stage L, and the loss, stage L+1, has time and memory costs of its own;
// - the A of C_Δ includes the part's input, also in the amount that is prefetched;
// - a step that does not fit is also rejected if waiting cannot free enough memory;
// - offloads and prefetches have separate bandwidths;
// - a `no_recompute` stage is a saved part by itself; the value of a `no_offload` stage stays.
// Transfer latency, host memory and `half_duplex` are ignored: the paper has neither of the first
// two, and at the loss it waits for the offloads before it prefetches.
#ifndef STOWAGE_TESTS_SUPPORT_LITERAL_POFO_H_
#define STOWAGE_TESTS_SUPPORT_LITERAL_POFO_H_

#include <optional>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// Consecutive stages of which the forward phase keeps only the input.
struct LiteralPofoPart {
  enum class Kind {
    kSave,        // one stage, FORWARD_SAVE
    kCheckpoint,  // FORWARD_CHECKPOINT and then FORWARD_DISCARD; recomputed in the backward phase
  };
  int first = 0;  // stages, from 1
  int last = 0;
  Kind kind = Kind::kSave;
  bool offloads_input = false;  // value first-1 is offloaded before the loss

  bool operator==(const LiteralPofoPart&) const = default;
};

struct LiteralPofo {
  double seconds = 0;  // the relaxed makespan
  std::vector<LiteralPofoPart>
      parts;             // of stages 1..L in order; the loss is saved, its input stays
  Schedule computation;  // the same and the recomputations, as operations; no transfers
};

// The paper's: the platform's memory is `slots` equal slots, every size, ΔF and ΔB is rounded up to
// whole ones. nullopt when nothing fits.
// Requires: platform.memory_bytes and slots above 0. O(L² slots³ + L³ slots²).
std::optional<LiteralPofo> LiteralPofoInSlots(const Chain& chain, const Platform& platform,
                                              int slots);

// Nothing is rounded, and a state is met again only if every number of it is the same. For chains
// of up to 6 stages.
std::optional<LiteralPofo> LiteralPofoInBytes(const Chain& chain, const Platform& platform);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_LITERAL_POFO_H_
