// How a solver presents itself to people and to clients.
#ifndef STOWAGE_SOLVER_MODEL_SOLVER_DESCRIPTION_H_
#define STOWAGE_SOLVER_MODEL_SOLVER_DESCRIPTION_H_

#include <span>

#include "solver/model/request.h"

namespace stowage {

struct SolverDescription {
  const char* name;
  const char* summary;     // one line
  const char* guarantee;   // what its answers are the best of
  const char* complexity;  // time and memory, L stages, S slots
  int version;             // raised when equal requests get other answers than before
  bool recomputes;
  bool offloads;
  bool mixes_modes = false;              // false: every stage in eager mode, whatever its costs
  std::span<const SolveOption> options;  // that it reads
};

constexpr const char* SolveOptionName(SolveOption option) {  // as in JSON
  switch (option) {
    case SolveOption::kMemorySlots:
      return "memory_slots";
    case SolveOption::kSegments:
      return "segments";
    case SolveOption::kTimePrecision:
      return "time_precision";
  }
  return "";
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_SOLVER_DESCRIPTION_H_
