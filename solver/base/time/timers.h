// Runs callbacks at deadlines, on one thread.
#ifndef STOWAGE_SOLVER_BASE_TIME_TIMERS_H_
#define STOWAGE_SOLVER_BASE_TIME_TIMERS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "solver/base/mutex.h"

namespace stowage {

// One thread that sleeps until the next deadline. The destructor drops the callbacks that are not
// due yet. Thread-safe, except for the destructor and Stop().
class Timers {
 public:
  using Clock = std::chrono::steady_clock;
  using Call = absl::AnyInvocable<void()>;  // must be quick and not throw
  // Identifies a callback; a default one identifies none.
  using Id = std::pair<Clock::time_point, uint64_t>;

  Timers();
  ~Timers();
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;

  // From here on nothing is called; waits for a callback that is running.
  void Stop();

  // Calls `call` once, from the thread, at `due`, or soon if that has passed. `call` may call At()
  // and Cancel().
  Id At(Clock::time_point due, Call call);
  // Drops the callback unless it has begun. Does not wait for one that is running.
  void Cancel(const Id& id);

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;
  std::map<Id, Call> calls_ ABSL_GUARDED_BY(mutex_);  // by deadline
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;         // makes ids with the same deadline differ
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_TIME_TIMERS_H_
