// A bounded queue of work and the threads that run it.
#ifndef STOWAGE_SERVER_ENGINE_WORK_QUEUE_H_
#define STOWAGE_SERVER_ENGINE_WORK_QUEUE_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "solver/base/mutex.h"

namespace stowage {

// First in, first out. Owns its threads; the destructor runs what is queued and joins them.
// Thread-safe, but for the destructor.
class WorkQueue {
 public:
  using Work = absl::AnyInvocable<void()>;  // must not throw

  struct Options {
    int threads = 1;
    size_t most_waiting = 0;  // beyond those that run
  };
  explicit WorkQueue(const Options& options);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Queues `work`. Errors, with `work` neither run nor kept: RESOURCE_EXHAUSTED when the queue is
  // full, UNAVAILABLE after Close().
  absl::Status Add(Work work);

  // Refuses all further work; what is queued still runs.
  void Close();
  // Waits until nothing is queued or running; false when `deadline` comes first.
  bool WaitUntilIdle(std::chrono::steady_clock::time_point deadline);

 private:
  void Run();
  bool TakeNext(Work* work);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_.empty() && running_ == 0;
  }

  const size_t most_waiting_;
  Mutex mutex_;
  CondVar changed_;  // work was added, finished or closed
  std::deque<Work> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // written only by the constructor
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_WORK_QUEUE_H_
