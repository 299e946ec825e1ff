// The description of a solver that help texts and ListSolvers show.
#ifndef STOWAGE_SOLVER_MODEL_SOLVER_DESCRIPTION_H_
#define STOWAGE_SOLVER_MODEL_SOLVER_DESCRIPTION_H_

#include <span>

#include "solver/model/request.h"

namespace stowage {

// All strings are static: the catalog is a constant table.
struct SolverDescription {
  const char* name;
  const char* summary;     // one line
  const char* guarantee;   // the class of schedules in which its results are optimal
  const char* complexity;  // time and memory, L stages, S slots
  int version;             // part of the cache key; raised when results change
  bool recomputes;
  bool offloads;
  bool mixes_modes = false;              // false: every stage runs in eager mode
  bool drops_inputs = false;             // false: every input stays, input_unread or not
  bool chooses_save_options = false;     // false: every stage is saved in its own way
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
