// What the stages of a short chain cost, by number, for searches that read it at every step.
#ifndef STOWAGE_SOLVER_BOUNDS_STAGE_COSTS_H_
#define STOWAGE_SOLVER_BOUNDS_STAGE_COSTS_H_

#include <array>
#include <cassert>
#include <cstdint>

#include "solver/model/chain.h"

namespace stowage {

// Of the loss, too; of the chain's input, number 0, output and gradient. Plain data.
template <int kMaxStages>
struct StageCosts {
  static constexpr int kMaxValues = kMaxStages + 2;

  // Requires: at most kMaxStages stages.
  explicit StageCosts(const Chain& chain) : loss(chain.length() + 1) {
    assert(chain.length() <= kMaxStages);
    output[0] = chain.input_bytes;
    gradient[0] = chain.gradient_bytes(0);
    for (int l = 1; l <= loss; ++l) {
      const Stage& stage = chain.stage(l);
      output[l] = stage.output_bytes;
      saved[l] = stage.saved_bytes;
      gradient[l] = chain.gradient_bytes(l);
      save_need[l] = stage.SaveNeedBytes(0);
      output_need[l] = stage.OutputNeedBytes();
      backward_overhead[l] = stage.backward_overhead_bytes;
      forward[l] = stage.forward_seconds;
      replay[l] = stage.ReplaySeconds();
      backward[l] = stage.backward_seconds;
      once[l] = stage.no_recompute;
      unread[l] = stage.input_unread;
    }
  }

  // Whether a fastest schedule may drop value l >= 1 by a FORWARD_DISCARD. What runs once is not
  // there again. Instead of saving what is dropped so, its output alone would have done, unless the
  // save dropped the chain's input, as no other forward does.
  bool MayDiscard(int l, bool is_saved) const {
    return !once[l] && (!is_saved || (l == 1 && unread[1]));
  }

  int loss;
  std::array<int64_t, kMaxValues> output{}, saved{}, gradient{}, save_need{}, output_need{},
      backward_overhead{};
  std::array<double, kMaxValues> forward{}, replay{}, backward{};
  std::array<bool, kMaxValues> once{}, unread{};  // no_recompute, input_unread
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_STAGE_COSTS_H_
