// The phases of a solve that take most of its time: the solvers that `auto` runs, and the bound.
#ifndef STOWAGE_SOLVER_ALGORITHMS_SOLVE_PHASE_H_
#define STOWAGE_SOLVER_ALGORITHMS_SOLVE_PHASE_H_

#include <functional>

namespace stowage {

enum class PhaseOutcome {
  kBetter,    // it found a faster schedule, or a closer bound, than there was
  kNoBetter,  // it did not
  kStopped,   // it ended with an error, such as CANCELLED
};

// Phases that are no solver of the catalog.
inline constexpr const char* kBoundPhase = "bound";  // the lower bound is raised
inline constexpr const char* kLocalSearchPhase = "local_search";
inline constexpr const char* kPlansPhase = "plans";             // of pofo, on a merged chain
inline constexpr const char* kModeSearchPhase = "mode_search";  // modes for a graph-mode chain

// Learns of the phases, one after the other, on the thread that solves. `begun` gets the name of a
// solver or one of the above, which is static.
struct PhaseObserver {
  std::function<void(const char* name)> begun;
  std::function<void(PhaseOutcome outcome)> ended;
};

// A phase, as long as this lives. Costs a comparison where nobody observes (null).
class SolvePhase {
 public:
  SolvePhase(const PhaseObserver* observer, const char* name) : observer_(observer) {
    if (observer_ != nullptr) observer_->begun(name);
  }
  ~SolvePhase() {
    if (observer_ != nullptr) observer_->ended(outcome_);
  }
  SolvePhase(const SolvePhase&) = delete;
  SolvePhase& operator=(const SolvePhase&) = delete;

  // One that is left without has been stopped.
  void EndsWith(PhaseOutcome outcome) { outcome_ = outcome; }

 private:
  const PhaseObserver* const observer_;
  PhaseOutcome outcome_ = PhaseOutcome::kStopped;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_SOLVE_PHASE_H_
