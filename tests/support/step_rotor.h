// Theorem 1 of RR-9302 in bytes, without slots and rounding: the least time of each part as an
// exact step function of its memory. One instance gives the optimum for every budget. Naive, for
// chains of up to about 60 stages. Shares no code with the solvers.
#ifndef STOWAGE_TESTS_SUPPORT_STEP_ROTOR_H_
#define STOWAGE_TESTS_SUPPORT_STEP_ROTOR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "solver/model/chain.h"

namespace stowage {

class StepRotor {
 public:
  // `keep_outputs_only`: the "revolve" strategy of section 5.3.
  explicit StepRotor(const Chain& chain, bool keep_outputs_only = false);

  // The least time of the chain in seconds within `memory_bytes`, its input included; nullopt if
  // nothing fits.
  std::optional<double> Seconds(int64_t memory_bytes) const;
  // The least memory for which a schedule exists.
  int64_t LeastBytes() const;

 private:
  // From `bytes` on the part takes `seconds`.
  struct Step {
    int64_t bytes = 0;
    double seconds = 0;
  };
  using Steps = std::vector<Step>;  // bytes grow, seconds fall

  static Steps LowerEnvelope(Steps steps);

  int64_t input_bytes_;
  Steps whole_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_STEP_ROTOR_H_
