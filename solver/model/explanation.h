// A report on a schedule's costs for people: the memory peaks and what occupies them, the idle time
// and the transfer that causes it, and how each stage's value is handled. Filled by
// simulator/explain.h.
// Source: server/README.md, "RPCs".
#ifndef STOWAGE_SOLVER_MODEL_EXPLANATION_H_
#define STOWAGE_SOLVER_MODEL_EXPLANATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "solver/model/prediction.h"
#include "solver/model/schedule.h"

namespace stowage {

// One thing that takes device memory while an operation runs.
struct Holding {
  enum class Kind { kOutput, kSaved, kGradient, kOverhead };

  Kind kind = Kind::kOutput;
  int stage = 0;  // owner of the bytes; for kOverhead, the operation's stage
  int64_t bytes = 0;
};

// An operation with the highest memory of the schedule.
struct Peak {
  size_t operation = 0;  // index
  int64_t memory_bytes = 0;
  std::vector<Holding> holdings;  // the largest first, at most kHoldingsShown
  int64_t other_bytes = 0;        // sum of the holdings that are not listed
};
inline constexpr size_t kPeaksShown = 3;
inline constexpr size_t kHoldingsShown = 8;

// Device memory while one operation runs, by what takes it.
struct MemoryByKind {
  int64_t output_bytes = 0;
  int64_t saved_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t overhead_bytes = 0;
};

// Time in which the compute queue waits.
struct Idle {
  // The compute operation that waits. One past the last operation: the wait for final transfers.
  size_t operation = 0;
  double seconds = 0;
  std::optional<size_t> waits_for;  // the RELEASE, PREFETCH or OFFLOAD that it waits for
};
inline constexpr size_t kIdlesShown = 8;

// How a schedule handles one stage's value.
struct StageFate {
  // What the first forward sweep leaves of the stage once the next stage has read it.
  enum class FirstSweep { kSaved, kOutput, kNothing };

  int stage = 0;
  FirstSweep first_sweep = FirstSweep::kNothing;
  int recomputed = 0;  // forwards beyond the first
  int offloaded = 0;   // times the value went to the host
  Mode mode = Mode::kEager;
  // In graph mode, the last stage of the fused unit, which alone produces a value. 0 for that stage
  // itself and for stages that are not fused.
  int fused_into = 0;
  int save_option = 0;  // in which its backward was; 0: the stage's own way
};

struct Explanation {
  std::vector<Peak> peaks;        // highest first, at most kPeaksShown
  std::vector<Idle> idles;        // longest first, at most kIdlesShown
  std::vector<StageFate> stages;  // 1..L
  // Further remarks for the caller, one sentence each: a solver that was skipped, an option without
  // effect.
  std::vector<std::string> notes;
};

// A simulation with its timeline and explanation.
struct ExplainedSimulation {
  Simulation simulation;
  std::vector<TimelineEntry> timeline;  // one entry an operation
  Explanation explanation;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_EXPLANATION_H_
