// A question to the solvers and its answer. Source: service.md, "RPCs".
#ifndef STOWAGE_SOLVER_MODEL_ANSWER_H_
#define STOWAGE_SOLVER_MODEL_ANSWER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/explanation.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/schedule.h"

namespace stowage {

// What a caller may set; a solver ignores what it does not read (see SolverDescription::options).
struct SolveOptions {
  int64_t memory_slots = 0;  // how finely a dynamic program divides memory; 0: the solver's default
  int segments = 0;          // how many segments `periodic` cuts; 0: the best of all counts
  double time_precision = 0;  // relative grid that times and bandwidths are rounded to; 0: exact
  bool report_rounding_loss = false;  // see Answer::rounding_loss; takes a solve on a finer grid
  // For whoever runs the solvers:
  double time_budget_seconds = 0;  // after which the best so far is the answer; 0: none
  bool use_cache = true;           // false: an answer that is known already will not do

  bool operator==(const SolveOptions&) const = default;
};
inline constexpr int64_t kDefaultMemorySlots = 500;
inline constexpr int64_t kMaxMemorySlots = int64_t{1} << 40;
inline constexpr double kMinTimePrecision = 1e-6;  // but for 0
inline constexpr double kMaxTimePrecision = 0.5;
inline constexpr double kMaxTimeBudgetSeconds = 1e6;

struct SolveRequest {
  Chain chain;
  Platform platform;
  std::string solver;  // empty: "auto"
  SolveOptions options;
};

enum class Outcome {
  kOptimal,     // in the solver's class, with nothing rounded; or equal to the lower bound
  kFeasible,    // `limit` says why it may not be the best
  kInfeasible,  // the solver has no schedule within this memory
};

// Why a feasible answer is not called optimal.
enum class Limit {
  kNone,
  kHeuristic,  // the solver gives no guarantee
  kRounding,   // sizes, times or memory slots were rounded
  kTime,       // time ran out
};

// What a solver found with more memory slots than it was asked to take.
struct RoundingLoss {
  int64_t finer_slots = 0;   // 0: there was nothing to compare with, the answer is optimal
  double finer_seconds = 0;  // the makespan with these
  double loss = 0;           // by how much the answer's makespan is longer, relatively
};

struct Answer {
  Outcome outcome = Outcome::kInfeasible;
  Limit limit = Limit::kNone;
  Schedule schedule;      // empty when infeasible
  Prediction prediction;  // simulated on the request's own chain; unset when infeasible
  Explanation explanation;
  Platform platform;  // as solved

  // The least memory with which this solver has a schedule for the chain, exact; unset: none is
  // enough (the host memory limit is in the way, say), or time ran out before it was known.
  std::optional<int64_t> minimum_memory_bytes;
  int64_t memory_floor_bytes = 0;             // M_low: no schedule of any solver exists below it
  Operation memory_floor_operation;           // the operation that needs it by itself
  std::optional<RoundingLoss> rounding_loss;  // where it was asked for and the solver uses slots
  std::string solver;                         // whose schedule it is; the asked one when infeasible
  bool from_exact_sizes = false;              // no size was rounded to get it
  std::vector<std::string> rejected;  // solvers whose schedule the simulator refused: a bug each
};

// How a solver presents itself to people and to clients.
struct SolverDescription {
  const char* name;
  const char* summary;     // one line
  const char* guarantee;   // what its answers are the best of
  const char* complexity;  // time and memory, L stages, S slots
  int version;             // raised when equal requests get other answers than before
  bool recomputes;
  bool offloads;
  bool mixes_modes = false;              // false: every stage in eager mode, whatever its costs
  std::span<const char* const> options;  // fields of SolveOptions that it reads
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_ANSWER_H_
