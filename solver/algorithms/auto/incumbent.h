// The fastest schedule so far for one budget, while solvers run one after another.
#ifndef STOWAGE_SOLVER_ALGORITHMS_AUTO_INCUMBENT_H_
#define STOWAGE_SOLVER_ALGORITHMS_AUTO_INCUMBENT_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "solver/algorithms/solve_phase.h"
#include "solver/algorithms/solver.h"
#include "solver/model/instance.h"

namespace stowage {

// What the solvers' guarantees hold for.
enum class GuaranteeScope {
  kChain,             // the chain as it is
  kOneChoiceOfModes,  // another may be faster
};

// Borrows the instance. Not thread-safe.
class Incumbent {
 public:
  // `memory_bytes` is the budget, whatever the instance's is.
  Incumbent(const Instance& instance, int64_t memory_bytes,
            GuaranteeScope scope = GuaranteeScope::kChain)
      : instance_(instance), memory_bytes_(memory_bytes), scope_(scope) {}

  int64_t memory_bytes() const { return memory_bytes_; }
  bool found() const { return candidate_.has_value(); }
  double seconds() const { return std::get<0>(key_); }        // its makespan. Requires: found()
  const Candidate& candidate() const { return *candidate_; }  // Requires: found()

  // Takes the candidate's place if it is better: simulated on the instance it fits the budget, and
  // it is faster, or as fast with a guarantee or a lower peak. `context.improved` is called when it
  // is faster. Whether it took the place.
  bool Consider(Candidate candidate, const SolveContext& context);
  // Considers the solution's schedule. Errors: CANCELLED once context.stop is set.
  absl::Status Consider(const Solution& solution, const SolveContext& context);
  // Considers what a local search finds around it and around the next best ones. Without memory for
  // its tables of recomputations beside it in `spare_bytes`, it changes only transfers and single
  // stages. Errors: CANCELLED once context.stop is set. Requires: found().
  absl::Status Improve(int64_t spare_bytes, const SolveContext& context);
  // Starts from a schedule for another budget: what pofo's plans and a short local search make of
  // it within this one. In a fraction of a solve's time. Errors: as Improve().
  absl::Status StartFrom(const Schedule& hint, int64_t spare_bytes, const SolveContext& context);
  // Looks through all schedules of a short chain, unless a bound shows that none is faster. Whether
  // these were few enough: then its candidate is the fastest of all. Errors: CANCELLED once
  // context.stop is set. Requires: found().
  absl::StatusOr<bool> Prove(const SolveContext& context);
  // The bytes that Improve() makes use of.
  static int64_t ImproveBytes(const Chain& chain);

  // Lowers the candidate's guarantee, "no schedule of its solver's class is faster", to what it
  // says of all schedules: kBestOfClass, or with a link, since the class does not offload,
  // kHeuristic.
  void LowerGuarantee();
  // The candidate with these notes; nullopt when none was found.
  std::optional<Candidate> WithNotes(const std::vector<std::string>& notes) const;

 private:
  void KeepOther(double seconds, Schedule schedule);
  bool MeetsBoundWithoutLink(const std::stop_token& stop) const;
  absl::Status Search(const Schedule& from, std::span<const Schedule> others, int64_t effort,
                      int64_t spare_bytes, const SolveContext& context);

  const Instance& instance_;
  const int64_t memory_bytes_;
  const GuaranteeScope scope_;
  std::optional<Candidate> candidate_;
  // Slower schedules that fit, by makespan, all different: Improve() starts from them, too.
  std::vector<std::pair<double, Schedule>> others_;
  // Makespan, then whether there is no guarantee, then the peak; the least wins.
  std::tuple<double, bool, int64_t> key_;
};

// A phase of a solve in which the incumbent may improve; stopped unless End() is called.
class ImprovingPhase {
 public:
  // Borrows all of them.
  ImprovingPhase(const SolveContext& context, const char* name, const Incumbent& best)
      : phase_(context.phases, name), best_(best), before_(SecondsOf(best)) {}

  void End() {
    phase_.EndsWith(SecondsOf(best_) < before_ ? PhaseOutcome::kBetter : PhaseOutcome::kNoBetter);
  }

 private:
  static double SecondsOf(const Incumbent& best) {
    return best.found() ? best.seconds() : std::numeric_limits<double>::infinity();
  }

  SolvePhase phase_;
  const Incumbent& best_;
  const double before_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_AUTO_INCUMBENT_H_
