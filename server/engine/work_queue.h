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
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "solver/base/mutex.h"

namespace stowage {

struct Work {
  absl::AnyInvocable<void()> run;             // must not throw
  std::string client = {};                    // clients take turns
  int64_t bytes = 0;                          // of memory, while it runs
  std::optional<size_t> most_of_client = {};  // unset: Options::most_of_a_client
  bool is_short = false;                      // expected to take milliseconds
  // Once set nobody waits for the work. It still runs, to report that, but needs no room in memory.
  std::stop_token stop = {};
};

// Clients take turns; the work of one client starts in the order in which it was added, but for
// short work, which has threads of its own beside the others. While others wait a client does not
// get all threads. Work that does not fit into memory yet is overtaken at most 16 times; then the
// others wait for it. Owns its threads; the destructor runs the queued work and joins them.
// Thread-safe, except for the destructor.
class WorkQueue {
 public:
  struct Options {
    int threads = 1;
    int short_threads = 0;               // beside those, for short work alone
    size_t most_waiting = 0;             // beyond those that run
    size_t most_of_a_client = SIZE_MAX;  // of one client, waiting or running
    int64_t most_bytes = INT64_MAX;      // of all that run at once
    int niceness = 0;                    // of its threads, above the process's own
  };
  explicit WorkQueue(const Options& options);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Queues `work` and returns its ticket, which is never 0. Errors, without running or keeping
  // `work`: RESOURCE_EXHAUSTED when the queue is full, the client has too much in it, or the work
  // needs more memory than there is for all; UNAVAILABLE after Close().
  absl::StatusOr<uint64_t> Add(Work work);

  // `client` waits for this work, too: it starts at the first turn of any of its clients. Does
  // nothing once the work has started, or where it is the client's already.
  void Share(uint64_t ticket, const std::string& client);

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
  enum class Lane { kAll, kShort };  // what a thread runs
  struct Waiting {
    Work work;
    std::vector<std::string> clients;
  };
  struct Client {
    std::deque<uint64_t> tickets;  // of its waiting work
    size_t running = 0;            // on all threads
    size_t holds = 0;              // threads of Lane::kAll
  };
  // Work that was taken, and the client whose turn it was.
  struct Taken {
    Work work;
    std::string client;
  };
  using Turn = std::deque<std::string>::iterator;

  void Run(Lane lane);
  std::optional<Taken> WaitForNext(Lane lane);
  void Finished(Lane lane, const Taken& taken);
  std::optional<Taken> Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Taken> NextShort() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayStart(const Work& work) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasItsShare(const Client& client) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Taken Take(const Turn& turn, uint64_t ticket, Lane lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Waiting Remove(uint64_t ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Append(uint64_t ticket, const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Work> TakeStopped() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Admit(const Work& work) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_.empty() && stats_.running == 0;
  }

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;  // work was added, finished or closed
  absl::flat_hash_map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);  // by ticket
  uint64_t last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Client> clients_ ABSL_GUARDED_BY(mutex_);  // those with work
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mutex_);  // clients with waiting work, next first
  int overtakes_ ABSL_GUARDED_BY(mutex_) = 0;  // how often others overtook the first in turn
  size_t held_ ABSL_GUARDED_BY(mutex_) = 0;    // threads of Lane::kAll that run something
  Stats stats_ ABSL_GUARDED_BY(mutex_);        // but for `waiting`
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // written only by the constructor
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_WORK_QUEUE_H_
