// What a caller may request: one schedule, one for each of many budgets, a simulation, or where a
// job fits.
// Source: server/README.md, "RPCs".
#ifndef STOWAGE_SOLVER_MODEL_REQUEST_H_
#define STOWAGE_SOLVER_MODEL_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/job.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// The options that a solver may read; each lists its own in SolverDescription::options.
enum class SolveOption { kMemorySlots, kSegments, kTimePrecision };

// What a caller may set. A solver ignores what it does not read.
// A new field belongs into VisitSolveOptions(), which does not compile without it.
struct SolveOptions {
  int64_t memory_slots = 0;  // how finely a dynamic program divides memory; 0: the solver's default
  int segments = 0;          // how many segments `periodic` cuts; 0: the best of all counts
  double time_precision = 0;  // relative grid that times and bandwidths are rounded to; 0: exact
  bool report_rounding_loss = false;  // see Answer::rounding_loss; takes a solve on a finer grid
  double time_budget_seconds = 0;     // after which the best so far is the answer; 0: none
  bool use_cache = true;              // false: solve even where the answer is cached

  bool operator==(const SolveOptions&) const = default;
};

// Hands every option to `visitor`, by what it means for the answer:
//   visitor.ReadBySolver(option, value)  changes the answers of the solvers that list the option
//   visitor.ReadByAll(value)             changes every answer
//   visitor.NoPartOfTheAnswer(value)     concerns the call alone
// Cache keys are made with it.
template <typename Visitor>
void VisitSolveOptions(const SolveOptions& options, Visitor&& visitor) {
  // One name a field: a field too few or too many does not compile.
  const auto& [memory_slots, segments, time_precision, report_rounding_loss, time_budget_seconds,
               use_cache] = options;
  visitor.ReadBySolver(SolveOption::kMemorySlots, memory_slots);
  visitor.ReadBySolver(SolveOption::kSegments, segments);
  visitor.ReadByAll(time_precision);  // whatever a solver lists: its instance is rounded with it
  visitor.ReadByAll(report_rounding_loss);
  visitor.NoPartOfTheAnswer(time_budget_seconds);  // answers cut short by time are not cached
  visitor.NoPartOfTheAnswer(use_cache);
}

inline constexpr int64_t kDefaultMemorySlots = 500;
inline constexpr int64_t kMaxMemorySlots = int64_t{1} << 40;
inline constexpr double kDefaultTimePrecision = 0.01;  // of calls to a server that set none
inline constexpr double kMinTimePrecision = 1e-6;      // but for 0
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

inline constexpr size_t kMaxDevices = 32;
inline constexpr size_t kMaxNameBytes = 1'000;  // of what an AdmitRequest names

// A device that a job may be given.
struct JobDevice {
  Platform platform;  // memory_bytes: for all of the job
  double price = 0;   // of an hour; 0: unknown
};

struct AdmitRequest {
  TrainingJob job;
  std::vector<JobDevice> devices;
  std::string solver;  // of plans; empty: "auto"
  SolveOptions options;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_REQUEST_H_
