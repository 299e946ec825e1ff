// Callers of a server that ask one after the other until they are stopped.
#ifndef STOWAGE_TESTS_SUPPORT_CALLERS_H_
#define STOWAGE_TESTS_SUPPORT_CALLERS_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "solver/base/mutex.h"

namespace stowage {

// Each asks on a thread of its own.
class Callers {
 public:
  // Makes a call. `number` counts the calls of all callers.
  using Ask = std::function<absl::Status(int number)>;

  explicit Callers(std::vector<Ask> callers);
  ~Callers() { (void)Stop(); }
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

  // Until so many calls more of each have ended; of two the second has begun after this.
  // Throws std::runtime_error after kPatience.
  void AwaitCalls(int more) const;
  // What failed.
  std::vector<std::string> Stop();
  // Of the call that took longest.
  double longest_seconds() const;

 private:
  void Run(const Ask& ask, std::atomic<int>* ended);

  const std::vector<Ask> callers_;
  std::vector<std::atomic<int>> ended_;  // calls of each
  std::atomic<int> calls_ = 0;
  std::atomic<bool> stop_ = false;
  mutable Mutex mutex_;
  std::vector<std::string> failures_ ABSL_GUARDED_BY(mutex_);
  double longest_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_CALLERS_H_
