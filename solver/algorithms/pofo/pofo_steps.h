// One part of a POFO plan at a time (pofo_program.h): what it asks of memory and of the link, in
// any state. The common ground of the relaxations and of the search. Stages count from 1; x tells
// what value i-1 is: 0 a^(i-1), 1 ā^(i-1), and I is its size.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_STEPS_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_STEPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// How a part that begins with stage i and value i-1 goes on: all that does not depend on the state.
// `need` and `late_need` count the kept input apart.
struct PofoStep {
  int last = 0;
  bool saved = false;
  double forward_seconds = 0;
  int64_t need = 0;       // of the most demanding forward
  double late_need = 0;   // the same, less what can leave before it
  int64_t back_need = 0;  // saved: of its backward
};

// Borrows all that it is given. Immutable, thread-safe.
class PofoSteps {
 public:
  static constexpr double kNoWay = 1e30;  // seconds; survives additions
  static bool IsNoWay(double seconds) { return seconds >= kNoWay / 2; }

  PofoSteps(const Chain& chain, const Platform& platform, const PartSequences& sequences,
            int64_t memory_bytes);

  const Chain& chain() const { return chain_; }
  int loss() const { return chain_.length() + 1; }
  int64_t memory_bytes() const { return memory_; }
  int64_t host_memory_bytes() const { return platform_.host_memory_bytes; }  // 0: unlimited

  int64_t Input(int i, int x) const {
    if (i == 1) return chain_.input_bytes;
    return x == 1 ? chain_.saved_bytes(i - 1) : chain_.output_bytes(i - 1);
  }
  bool moves() const { return moves_; }  // whether anything may
  bool MayMove(int value) const {
    return moves_ && (value == 0 || !chain_.stage(value).no_offload);
  }
  // Of a whole value: its latency counts as what the link would carry meanwhile.
  double OutBytes(int64_t bytes) const {
    return static_cast<double>(bytes) + platform_.transfer_latency_seconds * out_rate_;
  }
  double InBytes(int64_t bytes) const {
    return static_cast<double>(bytes) + platform_.transfer_latency_seconds * in_rate_;
  }
  // The time in which `bytes` leave, or return; nothing has to where there is no link.
  double OutSeconds(double bytes) const { return bytes > 0 && moves_ ? bytes / out_rate_ : 0; }
  double InSeconds(double bytes) const { return bytes > 0 && moves_ ? bytes / in_rate_ : 0; }
  // What can leave, or return, in that time.
  double OutWithin(double seconds) const { return moves_ ? out_rate_ * seconds : 0; }
  double InWithin(double seconds) const { return moves_ ? in_rate_ * seconds : 0; }

  PofoStep SaveStep(int i) const {
    const auto index = static_cast<size_t>(i - 1);
    return {i,
            true,
            chain_.stage(i).forward_seconds,
            save_need_[index],
            static_cast<double>(save_need_[index]),
            back_need_[index]};
  }
  // Lengthens the part by stage j; false when it may not hold it, or takes `limit_seconds` then.
  bool Extend(int j, int first, double limit_seconds, PofoStep* step) const {
    const Stage& stage = chain_.stage(j);
    if (j == loss() || stage.no_recompute) return false;
    const int64_t input = j == first ? 0 : chain_.output_bytes(j - 1);
    const int64_t need = input + stage.output_bytes + stage.forward_overhead_bytes;
    const double late = static_cast<double>(need) - out_rate_ * step->forward_seconds;
    step->last = j;
    step->need = std::max(step->need, need);
    step->late_need = j == first ? late : std::max(step->late_need, late);
    step->forward_seconds += stage.forward_seconds;
    return step->forward_seconds < limit_seconds;
  }

  double BackwardSeconds(int first, int last) const {
    return sequences_.StepSeconds(first - 1, last - 1) -
           sequences_.ForwardSeconds(first - 1, last - 1);
  }
  // C_Δ, less one backward of each stage; kNoWay when nothing fits. `kept` includes I. Names the
  // sequence that it takes.
  double AgainSeconds(int first, int last, int64_t kept, double returning, int32_t* sequence) const;
  // The least that a part needs to run again, its input counted apart; INT64_MAX: it cannot.
  int64_t LeastAgainBytes(int first, int last) const;

 private:
  const Chain& chain_;
  const Platform& platform_;
  const PartSequences& sequences_;
  const int64_t memory_;
  const double out_rate_;
  const double in_rate_;
  const bool moves_;
  std::vector<int64_t> save_need_;  // by stage, from 0
  std::vector<int64_t> back_need_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_STEPS_H_
