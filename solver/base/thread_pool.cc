#include "solver/base/thread_pool.h"

#include <system_error>

namespace stowage {

ThreadPool::ThreadPool(int threads) {
  threads_.reserve(static_cast<size_t>(threads));
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
  } catch (const std::system_error&) {
    // The system has no more to give: those that there are will do.
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(mutex_);
    over_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::RunOnFreeThreads(absl::FunctionRef<void()> body) {
  bool mine = false;
  if (!threads_.empty()) {
    MutexLock lock(mutex_);
    // Helpers of a job before may still be in it, whose caller must not wait for ours.
    mine = job_ == nullptr && inside_ == 0;
    if (mine) {
      job_ = &body;
      ++jobs_;
      changed_.SignalAll();
    }
  }
  body();
  if (!mine) return;
  MutexLock lock(mutex_);
  job_ = nullptr;  // whoever has not joined by now need not
  while (inside_ > 0) changed_.Wait(mutex_);
}

void ThreadPool::Run() {
  uint64_t joined = 0;
  MutexLock lock(mutex_);
  while (!over_) {
    if (job_ == nullptr || joined == jobs_) {
      changed_.Wait(mutex_);
      continue;
    }
    joined = jobs_;
    const absl::FunctionRef<void()>* const job = job_;
    ++inside_;
    mutex_.Unlock();
    (*job)();
    mutex_.Lock();
    --inside_;
    changed_.SignalAll();
  }
}

}  // namespace stowage
