// A bounded queue of work, shared fairly among clients, and the threads that run it: admits what
// comes to the lines of its clients (client_lines.h), and chooses what runs next by what runs
// already (running_work.h).
#ifndef STOWAGE_SERVER_ENGINE_QUEUE_WORK_QUEUE_H_
#define STOWAGE_SERVER_ENGINE_QUEUE_WORK_QUEUE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/queue/client_lines.h"
#include "server/engine/queue/running_work.h"
#include "server/engine/queue/work.h"
#include "solver/base/mutex.h"

namespace stowage {

// Clients take turns; the work of one client starts in the order in which it was added, but for
// short work, which has threads of its own beside the others, and turns of its own there. While
// others wait a client does not get all threads. Work that does not fit into memory yet is
// overtaken at most 16 times; then the others wait for it. Owns its threads; the destructor runs
// the queued work and joins them. Thread-safe, except for the destructor.
//
// Work that outlasts its turn goes on, but no longer keeps others waiting: spare threads serve
// clients that have nothing on a thread, as many as there is such work, and share the processors
// with it. A client's work leaves them a quarter of the memory, unless one alone takes more.
//
// What is expected to be short may not be. A client with work that overstays on the threads for
// short work gets no more of these until it ends, and as long as work overstays on all of them as
// many spare threads serve the short work of others.
//
// A full queue takes work of a client with less in it all the same: the newest work in the longest
// line loses its place ("longest queue drop"), so that no few clients fill the queue for all. Work
// that several clients share counts in the line of each, as if it were its own, and is only lost as
// work of the one with the shortest line. So clients that share all of their work have no more of
// the queue than one of them, and joining another's work makes it safer, never less safe.
class WorkQueue {
 public:
  struct Options {
    int threads = 1;
    int spare_threads = 0;  // beside those, while work outlasts its turn
    double turn_seconds = 1;
    int short_threads = 0;              // beside those, for short work alone
    double overstay_seconds = 0.25;     // work that runs as long was not short
    size_t max_waiting = 0;             // beyond those that run, at first
    size_t max_of_a_client = SIZE_MAX;  // of one client, waiting or running, at first
    int64_t max_bytes = INT64_MAX;      // of all that run at once
    int niceness = 0;                   // of its threads, above the process's own
  };
  explicit WorkQueue(const Options& options);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Queues `work` and returns its ticket, which is never 0. Errors, without running or keeping
  // `work`: RESOURCE_EXHAUSTED when the queue is full, the client has too much in it, or the work
  // needs more memory than there is for all; UNAVAILABLE after Close().
  absl::StatusOr<uint64_t> Add(Work work);
  // Whether an error of Add() is about the client: another one's work might be taken.
  static bool RefusesClient(const absl::Status& status);

  // As in the options, for work that is added from now on: what waits keeps its place.
  void SetMaxWaiting(size_t count);
  void SetMaxOfAClient(size_t count);
  size_t max_waiting() const;

  // `client` waits for this work, too: it starts at the first turn of any of its clients. Does
  // nothing once the work has started, or where it is the client's already.
  void Share(uint64_t ticket, const std::string& client);
  // `client` no longer waits for this work, which leaves its line. Work whose last client leaves
  // stays where it is until another one shares it.
  void Unshare(uint64_t ticket, const std::string& client);

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
  using Clock = RunningWork::Clock;
  using Kind = ClientLines::Kind;
  using Lane = RunningWork::Lane;
  // Work that was taken to run.
  struct Taken {
    Work work;
    RunningWork::Started started;
  };

  absl::Status Admit(const Work& work) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AdmitWithinLimits(const Work& work) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return lines_.waiting() == 0 && running_.count() == 0;
  }

  void Run(Lane lane);
  std::optional<Taken> WaitForNext(Lane lane);
  std::optional<Taken> Next(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Taken> NextShort(Lane lane, Clock::time_point now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Taken Take(uint64_t ticket, RunningWork::Started started) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finished(const RunningWork::Started& started);

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;  // work was added, finished or closed
  size_t max_waiting_ ABSL_GUARDED_BY(mutex_);
  size_t max_of_a_client_ ABSL_GUARDED_BY(mutex_);
  ClientLines lines_ ABSL_GUARDED_BY(mutex_);
  RunningWork running_ ABSL_GUARDED_BY(mutex_);
  int overtakes_ ABSL_GUARDED_BY(mutex_) = 0;  // how often others overtook the first in turn
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // written only by the constructor
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_QUEUE_WORK_QUEUE_H_
