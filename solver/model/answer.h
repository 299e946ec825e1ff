// What the solvers answer to a request (request.h). Source: server/README.md, "RPCs".
#ifndef STOWAGE_SOLVER_MODEL_ANSWER_H_
#define STOWAGE_SOLVER_MODEL_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "solver/model/explanation.h"
#include "solver/model/prediction.h"
#include "solver/model/schedule.h"

namespace stowage {

enum class Outcome {
  kOptimal,     // in the solver's class, with nothing rounded; or equal to the lower bound
  kFeasible,    // `guarantee` says why it may not be the best
  kInfeasible,  // the solver has no schedule within this memory
};

// How good a feasible answer is known to be. The API and JSON call it `limit`.
enum class Guarantee {
  kOptimal,       // as Outcome::kOptimal; an infeasible answer has this, too
  kHeuristic,     // the solver gives no guarantee, or none that is still known
  kUpToRounding,  // sizes, times or memory slots were rounded
  kTimeRanOut,    // the best schedule until then
  kBestOfClass,   // the best of the class of schedules that its solver knows; others may be faster
};

// Whether no schedule is faster, at least none of a class, for the times and sizes that were
// solved.
inline bool IsProved(Guarantee guarantee) {
  return guarantee == Guarantee::kOptimal || guarantee == Guarantee::kBestOfClass;
}

// Of an answer with a schedule.
inline Outcome OutcomeOf(Guarantee guarantee) {
  return guarantee == Guarantee::kOptimal ? Outcome::kOptimal : Outcome::kFeasible;
}

// What a solver found with more memory slots than it was asked to take.
struct RoundingLoss {
  int64_t finer_slots = 0;   // 0: there was nothing to compare with, the answer is optimal
  double finer_seconds = 0;  // the makespan with these
  double loss = 0;           // by how much the answer's makespan is longer, relatively
};

struct Answer {
  Outcome outcome = Outcome::kInfeasible;
  Guarantee guarantee = Guarantee::kOptimal;
  Schedule schedule;      // empty when infeasible
  Prediction prediction;  // simulated on the request's own chain; unset when infeasible
  Explanation explanation;

  // The least memory with which this solver has a schedule for the chain, exact; unset: none is
  // enough (the host memory limit is in the way, say), time ran out before it was known, or it was
  // not kept.
  std::optional<int64_t> minimum_memory_bytes;
  int64_t memory_floor_bytes = 0;             // M_low: no schedule of any solver exists below it
  Operation memory_floor_operation;           // the operation that needs it by itself
  std::optional<RoundingLoss> rounding_loss;  // where it was asked for and the solver uses slots
  std::string solver;                         // whose schedule it is; the asked one when infeasible
  bool from_exact_sizes = false;              // no size was rounded to get it
  std::vector<std::string> rejected;  // solvers whose schedule the simulator refused: a bug each
};

absl::string_view OutcomeName(Outcome outcome);  // "OPTIMAL", as in JSON

struct FrontierPoint {
  int64_t memory_bytes = 0;  // the budget
  Outcome outcome = Outcome::kInfeasible;
  Guarantee guarantee = Guarantee::kOptimal;
  std::string solver;     // whose schedule it is; empty when infeasible
  Prediction prediction;  // simulated on the request's own chain; unset when infeasible
};

struct Frontier {
  std::vector<FrontierPoint> points;  // budgets ascend, makespans never do
  // The point beyond which memory buys least for what it costs: of all points it lies farthest
  // below the straight line from the first feasible one to the last, memory on a logarithmic scale.
  std::optional<size_t> knee;
  std::string solver;                           // the one asked
  std::optional<int64_t> minimum_memory_bytes;  // as in Answer
  int64_t memory_floor_bytes = 0;               // as in Answer
  int64_t most_memory_bytes = 0;                // M_high: what storing everything takes
  int solves = 0;                               // that all points came from
  std::vector<std::string> rejected;            // as in Answer
  std::vector<std::string> notes;               // as in Explanation
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_ANSWER_H_
