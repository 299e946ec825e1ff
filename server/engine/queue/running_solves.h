// The solves that run at the moment, for metrics.
#ifndef STOWAGE_SERVER_ENGINE_QUEUE_RUNNING_SOLVES_H_
#define STOWAGE_SERVER_ENGINE_QUEUE_RUNNING_SOLVES_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "solver/base/mutex.h"

namespace stowage {

struct RunningSolve {
  int thread = 0;       // from 0; unique among the solves that run at the same time
  std::string solver;   // requested
  int stages = 0;       // of its chain
  double seconds = 0;   // since it began
  double fraction = 0;  // done, 0..1, as last reported
};

// Numbers running solves with the lowest free number, so that the metrics that are labelled with it
// stay bounded by the number of threads. Thread-safe.
class RunningSolves {
 private:
  struct Slot;

 public:
  // Lists one solve until it is destroyed.
  class Place {
   public:
    Place(RunningSolves& solves, const std::string& solver, int stages);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // From any thread, as often as it likes.
    void Progressed(double fraction) { slot_.fraction.store(fraction, std::memory_order_relaxed); }

   private:
    RunningSolves& solves_;
    Slot& slot_;
  };

  // All that run, by thread.
  std::vector<RunningSolve> List() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    bool taken = false;  // this and the next three: guarded by mutex_
    std::string solver;
    int stages = 0;
    Clock::time_point began;
    std::atomic<double> fraction{0};
  };
  Slot& Take(const std::string& solver, int stages);
  void Free(Slot& slot);

  mutable Mutex mutex_;
  std::deque<Slot> slots_ ABSL_GUARDED_BY(mutex_);  // grows at its end, so that places stay put
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_QUEUE_RUNNING_SOLVES_H_
