// The steps of POFO's dynamic program: what one more part needs of the device memory and of the
// link. The relaxations (pofo_relaxation.h) and the beam search (pofo_program.h) share them; the
// recurrence is at the top of pofo_program.h.
//
// Letters of the paper, as used here and in those two files:
//   i, j     first and last stage of a part, from 1; the loss is stage N = L+1
//   x        form of value i-1: 0 for a^(i-1), 1 for ā^(i-1)
//   I        bytes of value i-1, the input of the part
//   A        bytes kept on the device until their backward, I excluded
//   ΔF, ΔB   bytes that still have to be offloaded, and to be prefetched
//   βo, βp   offload and prefetch bandwidth in bytes per second
//   M        memory limit in bytes; mem = M - A - I
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_STEPS_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_STEPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// Where the next part begins.
struct PofoPosition {
  int i = 1;
  int x = 0;
};

// Stages first..last, numbered from 1.
struct StageRange {
  int first = 0;
  int last = 0;
};

// One part, as far as it does not depend on A, ΔF and ΔB. All needs exclude the part's input.
struct PofoStep {
  int last = 0;        // j
  bool saved = false;  // one saved stage; otherwise a part that is recomputed
  double forward_seconds = 0;
  int64_t forward_need = 0;   // bytes: max over its forwards
  double late_need = 0;       // bytes: max_k (m(k) - βo Σ_{h=i}^{k-1} uF_h)
  int64_t backward_need = 0;  // bytes: m_B(i) of a saved stage
};

// A part that is recomputed.
struct PofoPart {
  PofoStep step;
  int64_t least_need = 0;    // bytes: of the recomputation that needs least
  double least_seconds = 0;  // that it loses at least: with the fastest recomputation
};

// The position after the part.
inline PofoPosition After(const PofoStep& step) { return {step.last + 1, step.saved ? 1 : 0}; }

// Borrows its arguments. Immutable, thread-safe.
class PofoSteps {
 public:
  // Stands for an infinite time; stays recognizable after additions.
  static constexpr double kInfeasible = 1e30;
  static bool IsInfeasible(double seconds) { return seconds >= kInfeasible / 2; }

  PofoSteps(const Chain& chain, const Platform& platform, const PartSequences& sequences,
            int64_t memory_bytes);

  const Chain& chain() const { return chain_; }
  int loss() const { return chain_.length() + 1; }
  int64_t memory_bytes() const { return memory_; }                           // M
  int64_t host_memory_bytes() const { return platform_.host_memory_bytes; }  // 0: unlimited
  int64_t InputBytes(PofoPosition at) const {                                // I
    if (at.i == 1) return chain_.input_bytes;
    return at.x == 1 ? chain_.saved_bytes(at.i - 1) : chain_.output_bytes(at.i - 1);
  }
  bool has_link() const { return has_link_; }
  bool MayOffload(int value) const {
    return has_link_ && (value == 0 || !chain_.stage(value).no_offload);
  }

  // A value of `bytes` as a load on the link: the latency counts as the bytes that the link would
  // carry in that time.
  double OffloadLoad(int64_t bytes) const {
    return static_cast<double>(bytes) + platform_.transfer_latency_seconds * offload_rate_;
  }
  double PrefetchLoad(int64_t bytes) const {
    return static_cast<double>(bytes) + platform_.transfer_latency_seconds * prefetch_rate_;
  }
  // [bytes]+ / βo and [bytes]+ / βp; 0 without a link.
  double OffloadSeconds(double bytes) const {
    return bytes > 0 && has_link_ ? bytes / offload_rate_ : 0;
  }
  double PrefetchSeconds(double bytes) const {
    return bytes > 0 && has_link_ ? bytes / prefetch_rate_ : 0;
  }
  // The bytes that the link carries in that time: the recurrence's DF and DB.
  double OffloadedIn(double seconds) const { return has_link_ ? offload_rate_ * seconds : 0; }
  double PrefetchedIn(double seconds) const { return has_link_ ? prefetch_rate_ * seconds : 0; }

  // The part that saves stage i.
  PofoStep SaveStep(int i) const {
    const auto index = static_cast<size_t>(i - 1);
    return {i,
            true,
            chain_.stage(i).forward_seconds,
            save_need_[index],
            static_cast<double>(save_need_[index]),
            backward_need_[index]};
  }
  // Extends the recomputed part [first..j-1] to [first..j]. False when stage j may not be
  // recomputed, or when the forwards then take `limit_seconds` or more.
  bool ExtendPart(int j, int first, double limit_seconds, PofoStep* step) const {
    const Stage& stage = chain_.stage(j);
    if (j == loss() || stage.no_recompute) return false;
    const int64_t input = j == first ? 0 : chain_.output_bytes(j - 1);
    const int64_t need = input + stage.OutputNeedBytes();
    const double late = static_cast<double>(need) - offload_rate_ * step->forward_seconds;
    step->last = j;
    step->forward_need = std::max(step->forward_need, need);
    step->late_need = j == first ? late : std::max(step->late_need, late);
    step->forward_seconds += stage.forward_seconds;
    return step->forward_seconds < limit_seconds;
  }

  // The recomputed parts that begin at stage i, by their last stage: those whose forwards take less
  // than `limit_seconds`, and which can be recomputed in some memory.
  void ListParts(int i, double limit_seconds, std::vector<PofoPart>* parts) const;

  // One backward of each stage.
  double BackwardSeconds(int first, int last) const {
    return sequences_.StepSeconds(first - 1, last - 1) -
           sequences_.ForwardSeconds(first - 1, last - 1);
  }
  struct Recomputation {
    double seconds = kInfeasible;
    int32_t sequence = -1;  // index in PartSequences
  };
  // The sequences of a part that fit beside A + I, for any ΔB. Borrows the PartSequences.
  class Recomputations {
   public:
    // C_Δ(i, j, A + I, ΔB) less one backward of each stage, and the sequence that attains it;
    // kInfeasible when no sequence fits. `returning_bytes` is ΔB.
    Recomputation Fastest(double returning_bytes) const;

   private:
    friend class PofoSteps;
    const PartSequences* sequences_ = nullptr;
    std::span<const PartSequences::Sequence> fit_;  // by growing peak
    std::span<const PartSequences::Sequence> slower_;
    int64_t free_bytes_ = 0;       // M - (A + I)
    double forward_seconds_ = 0;   // one forward of each stage
    double backward_seconds_ = 0;  // one backward of each
    double prefetch_rate_ = 0;     // βp
  };
  // `kept_bytes` is A + I.
  Recomputations RecomputationsOf(StageRange part, int64_t kept_bytes) const;

 private:
  const Chain& chain_;
  const Platform& platform_;
  const PartSequences& sequences_;
  const int64_t memory_;
  const double offload_rate_;   // βo
  const double prefetch_rate_;  // βp
  const bool has_link_;
  std::vector<int64_t> save_need_;      // m_all by stage, from 0
  std::vector<int64_t> backward_need_;  // m_B by stage, from 0
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_STEPS_H_
