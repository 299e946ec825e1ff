// The ways to save each stage of a chain, its own first, for the programs with rotor's recurrence:
// the parts that begin with FORWARD_SAVE s have a case for each. Source: solver/README.md, "Chain",
// `save_options`. Stages are numbered from 0.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_SAVE_WAYS_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_SAVE_WAYS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "solver/algorithms/part_sizes.h"
#include "solver/model/chain.h"

namespace stowage {

// T as for PartSizes. Immutable, thread-safe.
template <typename T>
class SaveWays {
 public:
  struct Way {
    T saved = 0;              // |ā^s|
    T save_forward = 0;       // as PartSizes has them
    T save_backward = 0;      // likewise
    double lost_seconds = 0;  // of the backward, beyond that of the stage's own way
  };

  // `unit` converts bytes to T.
  template <typename Unit>
  SaveWays(const Chain& chain, const Unit& unit) {
    for (int l = 1; l <= chain.length() + 1; ++l) {
      const Stage& stage = chain.stage(l);
      first_.push_back(ways_.size());
      for (int k = 0; k <= stage.last_option(); ++k) {
        const int64_t saved = stage.SavedBytes(k);
        ways_.push_back(
            {.saved = unit(saved),
             .save_forward = unit(stage.SaveNeedBytes(k)),
             .save_backward = unit(saved + chain.gradient_bytes(l) + chain.gradient_bytes(l - 1) +
                                   stage.BackwardOverheadBytes(k)),
             .lost_seconds = stage.BackwardSeconds(k) - stage.backward_seconds});
      }
    }
    first_.push_back(ways_.size());
  }

  // By save_option; the first is the stage's own.
  std::span<const Way> of(int s) const {
    return {ways_.data() + first_[s], first_[s + 1] - first_[s]};
  }

 private:
  std::vector<size_t> first_;  // by stage: in ways_
  std::vector<Way> ways_;
};

// Saving stage s in one way, as the first of part [s..t].
struct Saved {
  int64_t need = 0;   // of its forward and its backward
  int64_t taken = 0;  // beside the rest of the part; less than 0 where an input frees more
};

// `leaves`: the input leaves once the stage has been saved.
template <typename T>
Saved SavedIn(const typename SaveWays<T>::Way& way, const PartSizes<T>& sizes, int s, int t,
              bool leaves) {
  const T freed = leaves ? sizes.input[s] : 0;
  return {std::max(way.save_forward + sizes.gradient[t], way.save_backward - freed),
          way.saved - freed};
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_SAVE_WAYS_H_
