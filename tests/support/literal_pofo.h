// The dynamic program of the POFO paper (NeurIPS 2021, appendix B), literally, and nothing else:
// the tables OC_x(i, A, ΔF, ΔB) and C_Δ(i, j, A, Δ), every entry by trying every choice. It finds
// the fastest *relaxed* program: whole values are offloaded, but memory is freed and taken byte by
// byte while they are copied, and a copy may be interrupted. What the fast solver must come close
// to, and what it is timed against. Shares no code with the solvers.
//
// Where it departs from the paper (solver/README.md, "POFO's equations, corrected"):
// - no gradient is counted in the forward phase, and δ^j throughout a recomputation of [i..j];
// - a part may end at stage L, and the loss, stage L+1, takes the time and memory that it states;
// - C_Δ of a part is given A with the part's input, also where it says how much is prefetched;
// - a step that does not fit is refused where waiting does not help, too;
// - offloading and prefetching each have a bandwidth of their own;
// - a `no_recompute` stage is a part by itself, saved; a `no_offload` stage's value stays.
// Transfer latency, the host's memory and `half_duplex` are ignored: the paper has none of the
// first two, and at the loss it waits for the offloads before it prefetches.
#ifndef STOWAGE_TESTS_SUPPORT_LITERAL_POFO_H_
#define STOWAGE_TESTS_SUPPORT_LITERAL_POFO_H_

#include <optional>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// Stages that the forward phase runs through keeping their input and nothing in between.
struct PofoPart {
  enum class Kind {
    kSave,        // one stage, FORWARD_SAVE
    kCheckpoint,  // FORWARD_CHECKPOINT and then FORWARD_DISCARD; the backward phase runs it again
  };
  int first = 0;  // stages, from 1
  int last = 0;
  Kind kind = Kind::kSave;
  bool offloads_input = false;  // value first-1 leaves for the host before the loss

  bool operator==(const PofoPart&) const = default;
};

struct LiteralPofo {
  double seconds = 0;           // the relaxed makespan
  std::vector<PofoPart> parts;  // of stages 1..L in order; the loss is saved, its input stays
  Schedule computation;         // the same and the recomputations, as operations; no transfers
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
