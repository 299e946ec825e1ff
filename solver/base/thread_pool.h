// A pool of threads that help one computation at a time.
#ifndef STOWAGE_SOLVER_BASE_THREAD_POOL_H_
#define STOWAGE_SOLVER_BASE_THREAD_POOL_H_

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "solver/base/mutex.h"

namespace stowage {

// Starts `threads` threads, or fewer if the system refuses more. They block until a call of
// RunOnFreeThreads() uses them. The pool serves one caller at a time: concurrent callers run on
// their own thread only, since concurrent solves are fastest with one thread each. Thread-safe.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();  // joins the threads. Requires: no call is in progress.
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls `body` on the calling thread and concurrently on every free thread of the pool, possibly
  // none. Returns when all these calls have returned. `body` must divide the work among an unknown
  // number of concurrent calls, and must not throw.
  void RunOnFreeThreads(absl::FunctionRef<void()> body);

 private:
  void RunHelper();  // the loop of one thread

  Mutex mutex_;
  CondVar changed_;  // signalled when a job starts, a helper leaves it, or the pool shuts down
  const absl::FunctionRef<void()>* job_ ABSL_GUARDED_BY(mutex_) = nullptr;  // borrowed; null: none
  uint64_t jobs_ ABSL_GUARDED_BY(mutex_) = 0;  // jobs started; a helper joins each at most once
  int active_helpers_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that run a job's body
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // written only by the constructor
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_THREAD_POOL_H_
