// The one runtime of the process, under its lock.
#ifndef STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_PROCESS_H_
#define STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_PROCESS_H_

#include <memory>

#include "solver/base/mutex.h"
#include "tests/support/cuda_double/runtime.h"

namespace stowage::cuda_double {

// CUDA's state of a thread, since the last Reset().
struct Thread {
  int generation = 0;
  int device = 0;
  cudaError_t last_error = cudaSuccess;
};

class Process {
 public:
  // Never destroyed: handles may be freed by destructors of static objects.
  static Process& Get();

  void Reset(const Options& options);

  // Calls `call(Runtime&, Thread&)` under the lock. Within a host function or a kernel, the thread
  // holds the lock already.
  template <typename Call>
  auto With(const Call& call) {
    if (Runtime* const running = Runtime::running(); running != nullptr) {
      return call(*running, TheThread());
    }
    const MutexLock lock(mutex_);
    if (TheThread().generation != generation_) TheThread() = {.generation = generation_};
    return call(*runtime_, TheThread());
  }

 private:
  Process();

  static Thread& TheThread() {
    static thread_local Thread thread;
    return thread;
  }
  // Prints reports that were not taken.
  void EndOnReports() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::unique_ptr<Runtime> runtime_ ABSL_GUARDED_BY(mutex_);
  int generation_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stowage::cuda_double

#endif  // STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_PROCESS_H_
