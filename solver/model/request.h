// What a caller may request: one schedule, one for each of many budgets, or a simulation.
// Source: server/README.md, "RPCs".
#ifndef STOWAGE_SOLVER_MODEL_REQUEST_H_
#define STOWAGE_SOLVER_MODEL_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
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

struct SimulateRequest {
  Chain chain;
  Platform platform;
  Schedule schedule;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_REQUEST_H_
