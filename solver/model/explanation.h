// Why a schedule costs what it costs, for people: where memory peaks and what holds it, where the
// compute queue waits and for which transfer, what becomes of each stage's value.
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
  int stage = 0;  // whose output, saved values or gradient; of an overhead, the operation's stage
  int64_t bytes = 0;
};

// An operation with the highest memory of the schedule.
struct Peak {
  size_t operation = 0;  // index
  int64_t memory_bytes = 0;
  std::vector<Holding> holdings;  // the largest first, at most kHoldingsShown
  int64_t other_bytes = 0;        // all further ones together
};
inline constexpr size_t kPeaksShown = 3;
inline constexpr size_t kHoldingsShown = 8;

// Time in which the compute queue waits.
struct Idle {
  size_t operation =
      0;  // the compute operation that had to wait; past the end: the final transfers
  double seconds = 0;
  std::optional<size_t> waits_for;  // the RELEASE, PREFETCH or OFFLOAD it waited for
};
inline constexpr size_t kIdlesShown = 8;

// What becomes of one stage's value.
struct StageFate {
  // What the first forward sweep leaves of the stage once the next stage has read it.
  enum class FirstSweep { kSaved, kOutput, kNothing };

  int stage = 0;
  FirstSweep first_sweep = FirstSweep::kNothing;
  int recomputed = 0;  // forwards beyond the first
  int offloaded = 0;   // times the value went to the host
  Mode mode = Mode::kEager;
  int fused_into = 0;  // the last stage of its unit in graph mode, which alone leaves a value; 0:
                       // it is that, or runs by itself
};

struct Explanation {
  std::vector<Peak> peaks;        // highest first, at most kPeaksShown
  std::vector<Idle> idles;        // longest first, at most kIdlesShown
  std::vector<StageFate> stages;  // 1..L
  // What else a caller should know, a sentence each: a solver that was left out, an option that
  // made no difference.
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
