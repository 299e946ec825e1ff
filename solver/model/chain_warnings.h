// Signs that the figures of a valid chain are not what the caller meant to measure. Each names the
// field, the value and the remedy, as violations do (validate.h); the chain is solved all the same.
// Source: solver/README.md, "Warnings", which has the thresholds.
#ifndef STOWAGE_SOLVER_MODEL_CHAIN_WARNINGS_H_
#define STOWAGE_SOLVER_MODEL_CHAIN_WARNINGS_H_

#include <string>
#include <vector>

#include "solver/model/chain.h"

namespace stowage {

struct ChainWarning {
  std::string field;    // "chain.stages[17].backward_seconds", indices from 0 as in JSON
  std::string reason;   // one of the constants below; a newer server may have others
  std::string problem;  // "is 65.0 ms, the forward 3.6 ms; …: let the timer wait for the device"

  bool operator==(const ChainWarning&) const = default;
};

inline constexpr char kBackwardShort[] = "BACKWARD_SHORT";  // in most stages, beside the forward
inline constexpr char kBackwardLong[] = "BACKWARD_LONG";
inline constexpr char kTimesDiffer[] = "TIMES_DIFFER";  // of stages of one kind
inline constexpr char kTimesZero[] = "TIMES_ZERO";      // all of them
inline constexpr char kStepLong[] = "STEP_LONG";
inline constexpr char kStepShort[] = "STEP_SHORT";
inline constexpr char kSizesSmall[] = "SIZES_SMALL";                 // of most stages
inline constexpr char kSavedEqualsOutput[] = "SAVED_EQUALS_OUTPUT";  // in every stage

// At most one warning a reason; of the stages that one concerns it names the first, or the one that
// is farthest off. Graph costs are not looked at. O(stages and their names), and allocates nothing
// where it finds nothing. Requires: Violations(chain) is empty. Pure, thread-safe.
std::vector<ChainWarning> ChainWarnings(const Chain& chain);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_CHAIN_WARNINGS_H_
