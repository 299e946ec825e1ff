// The steps of a solve that callers share, for the traces of these.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_STEPS_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_STEPS_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "server/events/call_trace.h"
#include "solver/algorithms/solve_phase.h"
#include "solver/base/mutex.h"
#include "solver/base/out_of_memory.h"

namespace stowage {

// As spans have it.
constexpr absl::string_view OutcomeText(PhaseOutcome outcome) {
  switch (outcome) {
    case PhaseOutcome::kBetter:
      return "better";
    case PhaseOutcome::kNoBetter:
      return "no_better";
    case PhaseOutcome::kStopped:
      return "stopped";
  }
  return "";
}

// Kept of every solve: a traced call may join one that others began. One step at a time is under
// way, and one phase of its solver, which is a part of it. Thread-safe.
class SolveSteps {
 public:
  static constexpr size_t kMaxPhases = 100;  // a chain with a graph mode has some 70

  // Ends the step under way and begins this one, unless they are the same.
  void Begin(absl::string_view name) {
    const auto begin = [&] {
      MutexLock lock(mutex_);
      if (step_.has_value() && steps_[*step_].name == name) return true;
      EndLast();
      step_ = Add({.name = name});
      return true;
    };
    (void)UnlessOutOfMemory(begin, false);  // then the step is left out
  }
  void End() {
    MutexLock lock(mutex_);
    EndLast();
  }

  // Keeps the phases of the step under way. Lives as long as this object.
  const PhaseObserver& phases() const { return observer_; }

  enum class Began { kByCaller, kByOther };
  // Adds them to the trace of a caller, what is under way as if it ended now.
  void RecordIn(CallTrace& trace, Began began) const {
    const auto record = [&] {
      MutexLock lock(mutex_);
      std::vector<CallSpan> spans = steps_;
      const CallTrace::Clock::time_point now = CallTrace::Clock::now();
      for (CallSpan& span : spans) {
        span.end = std::min(span.end, now);
        span.is_joined = began == Began::kByOther;
      }
      trace.RecordAll(spans, left_out_);
      return true;
    };
    (void)UnlessOutOfMemory(record, false);  // then they are left out
  }

 private:
  using Place = std::optional<size_t>;  // in steps_; nullopt: none is under way

  size_t Add(CallSpan span) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    span.begin = CallTrace::Clock::now();
    span.end = kNotYet;
    steps_.push_back(span);
    return steps_.size() - 1;
  }
  void EndLast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (Place* const last : {&phase_, &step_}) {
      if (last->has_value()) steps_[**last].end = CallTrace::Clock::now();
      last->reset();
    }
  }
  void BeginPhase(absl::string_view name) {
    const auto begin = [&] {
      MutexLock lock(mutex_);
      if (phases_ == kMaxPhases) {
        ++left_out_;
      } else if (step_.has_value()) {
        ++phases_;
        phase_ = name == kBoundPhase ? Add({.name = kBoundSpan, .parent = *step_})
                                     : Add({.name = kSolveSpan, .solver = name, .parent = *step_});
      }
      return true;
    };
    (void)UnlessOutOfMemory(begin, false);
  }
  void EndPhase(PhaseOutcome outcome) {
    MutexLock lock(mutex_);
    if (!phase_.has_value()) return;
    steps_[*phase_].outcome = OutcomeText(outcome);
    steps_[*phase_].end = CallTrace::Clock::now();
    phase_.reset();
  }

  static constexpr CallTrace::Clock::time_point kNotYet = CallTrace::Clock::time_point::max();

  const PhaseObserver observer_ = {.begun = [this](const char* name) { BeginPhase(name); },
                                   .ended = [this](PhaseOutcome outcome) { EndPhase(outcome); }};
  mutable Mutex mutex_;
  std::vector<CallSpan> steps_ ABSL_GUARDED_BY(mutex_);  // a phase comes after its step
  Place step_ ABSL_GUARDED_BY(mutex_);
  Place phase_ ABSL_GUARDED_BY(mutex_);
  size_t phases_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;  // phases
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_STEPS_H_
