// Runs of which only the newest matters: each one stops the run before it.
#ifndef STOWAGE_CLIENT_CLI_VIEW_NEWEST_RUN_H_
#define STOWAGE_CLIENT_CLI_VIEW_NEWEST_RUN_H_

#include <stop_token>

#include "absl/base/thread_annotations.h"
#include "solver/base/mutex.h"

namespace stowage {

// Thread-safe.
class NewestRun {
 public:
  // Asks the run before to stop, and returns what asks this one to.
  std::stop_token Begin() {
    const MutexLock lock(mutex_);
    stop_.request_stop();
    stop_ = std::stop_source();
    return stop_.get_token();
  }

 private:
  Mutex mutex_;
  std::stop_source stop_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_VIEW_NEWEST_RUN_H_
