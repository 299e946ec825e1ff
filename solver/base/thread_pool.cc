#include "solver/base/thread_pool.h"

#include <system_error>

namespace stowage {

ThreadPool::ThreadPool(int threads) {
  threads_.reserve(static_cast<size_t>(threads));
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { RunHelper(); });
  } catch (const std::system_error&) {
    // The system allows no more threads. The pool works with those that have started.
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(mutex_);
    shutting_down_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::RunOnFreeThreads(absl::FunctionRef<void()> body) {
  bool owns_pool = false;
  if (!threads_.empty()) {
    MutexLock lock(mutex_);
    // The previous caller may still wait for its helpers. Starting a job now would make it wait for
    // ours, too, because active_helpers_ counts both.
    owns_pool = job_ == nullptr && active_helpers_ == 0;
    if (owns_pool) {
      job_ = &body;
      ++jobs_;
      changed_.SignalAll();
    }
  }
  body();
  if (!owns_pool) return;
  MutexLock lock(mutex_);
  job_ = nullptr;  // the work is done: no further helper may join
  while (active_helpers_ > 0) changed_.Wait(mutex_);
}

void ThreadPool::RunHelper() {
  uint64_t joined = 0;  // the last job that this thread ran
  MutexLock lock(mutex_);
  while (!shutting_down_) {
    if (job_ == nullptr || joined == jobs_) {
      changed_.Wait(mutex_);
      continue;
    }
    joined = jobs_;
    const absl::FunctionRef<void()>* const job = job_;
    ++active_helpers_;
    mutex_.Unlock();  // the body runs without the lock
    (*job)();
    mutex_.Lock();
    --active_helpers_;
    changed_.SignalAll();
  }
}

}  // namespace stowage
