// Threads that a computation may borrow.
#ifndef STOWAGE_SOLVER_BASE_THREAD_POOL_H_
#define STOWAGE_SOLVER_BASE_THREAD_POOL_H_

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "solver/base/mutex.h"

namespace stowage {

// Some threads, as many as asked for unless the system refuses, that sleep until they are borrowed.
// Whoever asks while others have them works alone: many solves at once are better off with a thread
// each.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();  // joins them. Requires: no call is under way.
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls `body` on the calling thread and, at the same time, on every thread of the pool that is
  // free just then, perhaps none; returns when all these calls have. `body` shares the work out
  // among however many calls there are, and must not throw.
  void RunOnFreeThreads(absl::FunctionRef<void()> body);

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;  // a job came, was left by its last helper, or all is over
  const absl::FunctionRef<void()>* job_ ABSL_GUARDED_BY(mutex_) = nullptr;  // one at a time
  uint64_t jobs_ ABSL_GUARDED_BY(mutex_) = 0;  // that there were; each helper joins one once
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;     // helpers in job_
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // written only by the constructor
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_THREAD_POOL_H_
