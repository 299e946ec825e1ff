// What memory buys: one chain under many budgets. Source: service.md, "RPCs".
#ifndef STOWAGE_SOLVER_MODEL_FRONTIER_H_
#define STOWAGE_SOLVER_MODEL_FRONTIER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "solver/model/answer.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"

namespace stowage {

inline constexpr int kDefaultFrontierPoints = 20;
inline constexpr int kMaxFrontierPoints = 1000;

struct FrontierRequest {
  Chain chain;
  Platform platform;   // its memory_bytes plays no part
  std::string solver;  // empty: "auto"
  SolveOptions options;
  // So many budgets, each the same factor above the one before, from the least with which the
  // solver has a schedule to what storing everything takes. 0: kDefaultFrontierPoints.
  int points = 0;
  std::vector<int64_t> budgets;  // or these, in bytes, in any order
};

struct FrontierPoint {
  int64_t memory_bytes = 0;  // the budget
  Outcome outcome = Outcome::kInfeasible;
  Limit limit = Limit::kNone;
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

#endif  // STOWAGE_SOLVER_MODEL_FRONTIER_H_
