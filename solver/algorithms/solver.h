// The interface of every algorithm: from an instance to schedules.
#ifndef STOWAGE_SOLVER_ALGORITHMS_SOLVER_H_
#define STOWAGE_SOLVER_ALGORITHMS_SOLVER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "solver/model/answer.h"
#include "solver/model/instance.h"
#include "solver/model/modes.h"
#include "solver/model/schedule.h"
#include "solver/model/solver_description.h"

namespace stowage {

class ThreadPool;
struct Candidate;
struct PhaseObserver;

// What a solve may use while it runs; borrowed for the call.
struct SolveContext {
  std::stop_token stop;                           // polled: a solve stops within 50 ms
  int64_t working_bytes = INT64_MAX;              // the most that it may allocate
  ThreadPool* threads = nullptr;                  // null: the calling thread only
  int64_t lowest_bytes = INT64_MAX;               // the lowest budget queried of the Solution
  std::function<void(double fraction)> progress;  // 0..1, from the calling thread; may be empty
  // A schedule for a budget nearby, or null. A solve may start from it instead of from nothing, to
  // answer in a fraction of the time; then it may miss a schedule that it would find otherwise.
  const Schedule* hint = nullptr;
  // Called with each schedule for the instance's budget that is faster than all before it, from the
  // calling thread; may be empty.
  std::function<void(const Candidate& candidate)> improved;
  const PhaseObserver* phases = nullptr;  // solve_phase.h; null: nobody observes them

  void Report(double fraction) const {
    if (progress) progress(fraction);
  }
  // The progress of step `index` of `count`, each with an equal share of this context's, which must
  // outlive it.
  std::function<void(double fraction)> ShareOfProgress(size_t index, size_t count) const {
    return [this, index, count](double fraction) {
      Report((static_cast<double>(index) + fraction) / static_cast<double>(count));
    };
  }
  // This context, which must outlive it, with progress that never goes back, whichever copy reports
  // it: some steps begin at 0 again, and some are solves of their own.
  SolveContext Monotonic() const {
    SolveContext context = *this;
    if (!progress) return context;
    context.progress = [this, reached = std::make_shared<double>(-1)](double fraction) {
      if (fraction <= *reached) return;
      *reached = fraction;
      progress(fraction);
    };
    return context;
  }
  // The context of a nested solve: without callbacks, and queried for its own budget only.
  SolveContext Quiet() const {
    SolveContext quiet = *this;
    quiet.hint = nullptr;
    quiet.progress = nullptr;
    quiet.improved = nullptr;
    quiet.phases = nullptr;
    quiet.lowest_bytes = INT64_MAX;
    return quiet;
  }
  absl::Status CheckStop() const {
    return stop.stop_requested() ? absl::CancelledError("the solve was cancelled")
                                 : absl::OkStatus();
  }
};

// One schedule that a solver found.
struct Candidate {
  Schedule schedule;
  const char* solver = "";  // its origin; a solver that runs others names the one that won
  Guarantee guarantee = Guarantee::kHeuristic;  // kOptimal: in its solver's class, on the instance
  std::vector<std::string> notes;               // see Explanation::notes
};

// The outcome of one solve, for the instance's budget. Immutable, thread-safe.
class Solution {
 public:
  virtual ~Solution() = default;
  // The best schedule found whose peak on the instance's chain is at most `memory_bytes` and that
  // has at most kMaxOperations operations; nullopt when there is none. Errors: CANCELLED once
  // `context.stop` is set. Requires: memory_bytes is at most the instance's, and either the
  // instance's or at least what SolveContext::lowest_bytes was.
  virtual absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const = 0;

  // The lowest budget for which its schedules are as good as those of a separate solve; 0: every
  // budget.
  virtual int64_t serves_from_bytes() const { return 0; }
  // Whether each budget other than the instance's costs a new solve.
  virtual bool solves_each_budget() const { return false; }
  // Whether each schedule is optimal in the solver's class, without rounding.
  virtual bool exact() const { return false; }
};

// One algorithm. Stateless and thread-safe: everything a solve needs is in its arguments.
class Solver {
 public:
  virtual ~Solver() = default;

  // An upper bound on the bytes that Solve() and LeastBytes() allocate at once.
  virtual int64_t WorkingBytes(const Instance& instance) const = 0;
  // The bytes that a solve allocates when it may use up to `max_bytes`
  // (SolveContext::working_bytes). Solvers that benefit from more memory than WorkingBytes()
  // override it.
  virtual int64_t WorkingBytesWithin(const Instance& instance, int64_t max_bytes) const {
    return std::min(WorkingBytes(instance), max_bytes);
  }

  // The least device memory, exact in bytes, with which this solver finds a schedule for the
  // instance's chain; the instance's own budget is ignored. nullopt: no amount is enough.
  // Errors: CANCELLED once `context.stop` is set.
  virtual absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                            const SolveContext& context) const = 0;

  // A lower bound in seconds on the makespan of every schedule of this solver, whatever the budget,
  // up to the rounding of sums. `auto` leaves out a solver that cannot win. O(stages).
  virtual double LeastSeconds(const Instance& instance) const {
    return ComputeSeconds(instance.chain(), instance.units());
  }

  // Solves for the instance's budget. "Nothing fits" is an outcome, not an error: a solution
  // without schedules. With a budget of LeastBytes() or more there is a schedule, unless it would
  // need more than kMaxOperations operations. Errors: CANCELLED once `context.stop` is set.
  virtual absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const = 0;
};

// One entry of the catalog.
struct SolverInfo {
  SolverDescription description;
  std::unique_ptr<Solver> (*make)();
  absl::string_view inside_of = "";  // a solver whose class contains every schedule of this one
  bool asked_by_auto = true;         // false: a class for those who cannot run any schedule
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_SOLVER_H_
