#include "server/engine/work_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stowage {

WorkQueue::WorkQueue(const Options& options) : most_waiting_(options.most_waiting) {
  threads_.reserve(static_cast<size_t>(options.threads));
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkQueue::~WorkQueue() {
  Close();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status WorkQueue::Add(Work work) {
  MutexLock lock(mutex_);
  if (closed_) return absl::UnavailableError("the server is draining; ask another one");
  // Work that a free thread is about to take does not count as waiting.
  const size_t free_threads = threads_.size() - running_;
  if (waiting_.size() >= most_waiting_ + free_threads) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the queue is full: ", waiting_.size(), " requests are waiting; try again in a second"));
  }
  waiting_.push_back(std::move(work));
  changed_.SignalAll();
  return absl::OkStatus();
}

void WorkQueue::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.SignalAll();
}

bool WorkQueue::WaitUntilIdle(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (!Idle()) {
    if (!changed_.WaitUntil(mutex_, deadline)) return Idle();
  }
  return true;
}

bool WorkQueue::TakeNext(Work* work) {
  MutexLock lock(mutex_);
  while (waiting_.empty()) {
    if (closed_) return false;
    changed_.Wait(mutex_);
  }
  *work = std::move(waiting_.front());
  waiting_.pop_front();
  ++running_;
  return true;
}

void WorkQueue::Run() {
  Work work;
  while (TakeNext(&work)) {
    work();
    work = nullptr;  // frees what it holds before it counts as done
    MutexLock lock(mutex_);
    --running_;
    changed_.SignalAll();
  }
}

}  // namespace stowage
