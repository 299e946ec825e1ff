// The steps of a solve that callers share, for the traces of these.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_STEPS_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_STEPS_H_

#include <algorithm>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "server/events/call_trace.h"
#include "solver/base/mutex.h"
#include "solver/base/out_of_memory.h"

namespace stowage {

// Kept of every solve: a traced call may join one that others began. One step at a time is under
// way. Thread-safe.
class SolveSteps {
 public:
  // Ends the step under way and begins this one, unless they are the same.
  void Begin(absl::string_view name) {
    const auto begin = [&] {
      MutexLock lock(mutex_);
      if (is_under_way_ && steps_.back().name == name) return true;
      EndLast();
      steps_.push_back({.name = name, .begin = CallTrace::Clock::now(), .end = kNotYet});
      is_under_way_ = true;
      return true;
    };
    (void)UnlessOutOfMemory(begin, false);  // then the step is left out
  }
  void End() {
    MutexLock lock(mutex_);
    EndLast();
  }

  enum class Began { kByCaller, kByOther };
  // Adds them to the trace of a caller, the one under way as if it ended now.
  void RecordIn(CallTrace& trace, Began began) const {
    MutexLock lock(mutex_);
    const CallTrace::Clock::time_point now = CallTrace::Clock::now();
    for (CallSpan step : steps_) {
      step.end = std::min(step.end, now);
      step.is_joined = began == Began::kByOther;
      trace.Record(step);
    }
  }

 private:
  void EndLast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (is_under_way_) steps_.back().end = CallTrace::Clock::now();
    is_under_way_ = false;
  }

  static constexpr CallTrace::Clock::time_point kNotYet = CallTrace::Clock::time_point::max();

  mutable Mutex mutex_;
  std::vector<CallSpan> steps_ ABSL_GUARDED_BY(mutex_);
  bool is_under_way_ ABSL_GUARDED_BY(mutex_) = false;  // the last of them
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_STEPS_H_
