// The requests of an engine that have not ended, for which a drain waits.
#ifndef STOWAGE_SERVER_ENGINE_LIMITS_PENDING_REQUESTS_H_
#define STOWAGE_SERVER_ENGINE_LIMITS_PENDING_REQUESTS_H_

#include <chrono>
#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "solver/base/mutex.h"

namespace stowage {

// Thread-safe.
class PendingRequests {
 public:
  // Counts a request until Finish(). UNAVAILABLE, uncounted, after Close(), but for a part of a
  // request that is counted itself.
  absl::Status Begin(bool is_part = false) {
    MutexLock lock(mutex_);
    if (closed_ && !is_part)
      return absl::UnavailableError("the server is draining; ask another server");
    ++count_;
    return absl::OkStatus();
  }
  void Finish() {
    MutexLock lock(mutex_);
    if (--count_ == 0) none_.SignalAll();
  }

  // From here on Begin() refuses requests.
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }

  // Until none is left, or `deadline`.
  void WaitUntil(std::chrono::steady_clock::time_point deadline) {
    MutexLock lock(mutex_);
    while (count_ > 0 && none_.WaitUntil(mutex_, deadline)) {
    }
  }
  void Wait() {
    MutexLock lock(mutex_);
    while (count_ > 0) none_.Wait(mutex_);
  }

 private:
  mutable Mutex mutex_;
  CondVar none_;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_LIMITS_PENDING_REQUESTS_H_
