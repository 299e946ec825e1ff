// A bounded queue of work, shared fairly among clients, and the threads that run it.
#ifndef STOWAGE_SERVER_ENGINE_WORK_QUEUE_H_
#define STOWAGE_SERVER_ENGINE_WORK_QUEUE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "solver/base/mutex.h"

namespace stowage {

struct Work {
  absl::AnyInvocable<void()> run;  // must not throw
  std::string client = {};         // clients take turns
  int64_t bytes = 0;               // of memory, while it runs
  // Once set nobody waits for the work. It still runs, to report that, but needs no room in memory.
  std::stop_token stop = {};
};

// Clients take turns; the work of one client starts in the order in which it was added. Work that
// does not fit into memory yet is overtaken at most 16 times; then the others wait for it. Owns its
// threads; the destructor runs the queued work and joins them. Thread-safe, except for the
// destructor.
class WorkQueue {
 public:
  struct Options {
    int threads = 1;
    size_t most_waiting = 0;             // beyond those that run
    size_t most_of_a_client = SIZE_MAX;  // of one client, waiting or running
    int64_t most_bytes = INT64_MAX;      // of all that run at once
    int niceness = 0;                    // of its threads, above the process's own
  };
  explicit WorkQueue(const Options& options);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Queues `work` and returns how much was waiting before it. Errors, without running or keeping
  // `work`: RESOURCE_EXHAUSTED when the queue is full, the client has too much in it, or the work
  // needs more memory than there is for all; UNAVAILABLE after Close().
  absl::StatusOr<size_t> Add(Work work);

  // Refuses further work; queued work still runs.
  void Close();
  // Waits until nothing is queued or running; false when `deadline` comes first.
  bool WaitUntilIdle(std::chrono::steady_clock::time_point deadline);

  struct Stats {
    size_t waiting = 0;
    size_t running = 0;
    int64_t running_bytes = 0;
  };
  Stats stats() const;

 private:
  struct Client {
    std::deque<Work> waiting;
    size_t running = 0;
  };
  using Clients = std::map<std::string, Client>;

  void Run();
  bool TakeNext(Work* work);
  std::optional<Work> Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Work Take(std::deque<std::string>::iterator turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Work> TakeStopped() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Admit(const Work& work) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stats_.waiting == 0 && stats_.running == 0;
  }

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;                                        // work was added, finished or closed
  Clients clients_ ABSL_GUARDED_BY(mutex_);                // those with work
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mutex_);  // clients with waiting work, next first
  int overtakes_ ABSL_GUARDED_BY(mutex_) = 0;  // how often others overtook the first in turn
  Stats stats_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // written only by the constructor
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_WORK_QUEUE_H_
