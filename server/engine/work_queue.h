// A bounded queue of work, shared fairly among clients, and the threads that run it.
#ifndef STOWAGE_SERVER_ENGINE_WORK_QUEUE_H_
#define STOWAGE_SERVER_ENGINE_WORK_QUEUE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "solver/base/mutex.h"

namespace stowage {

struct Work {
  absl::AnyInvocable<void()> run;            // must not throw
  std::string client = {};                   // clients take turns
  int64_t bytes = 0;                         // of memory, while it runs
  std::optional<size_t> max_of_client = {};  // unset: Options::max_of_a_client
  bool is_short = false;                     // expected to take milliseconds
  // Finishes requests that were admitted before: neither a full queue nor the limit of the client
  // refuses it, and it takes no place in the queue.
  bool is_readmitted = false;
  // Once set nobody waits for the work. It still runs, to report that, but needs no room in memory.
  std::stop_token stop = {};
  // Called instead of `run` where the work loses its place in a full queue, with its clients, whose
  // lines were all too long, and RESOURCE_EXHAUSTED. Comes from whoever adds work. Empty: it keeps
  // its place.
  using Drop = void(const std::vector<std::string>& clients, const absl::Status& status);
  absl::AnyInvocable<Drop> drop = {};
};

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
  using Clock = std::chrono::steady_clock;
  // What a thread runs: all work; short work; that while others overstay.
  enum class Lane { kAll, kShort, kSpare };
  struct Client {
    std::deque<uint64_t> tickets;        // of its waiting work
    std::deque<uint64_t> short_tickets;  // those of them that are short
    size_t places = 0;                   // in the queue, of the tickets: without readmitted work
    size_t running = 0;                  // on all threads
    int64_t running_bytes = 0;
    size_t holds = 0;                          // threads of Lane::kAll
    std::multiset<Clock::time_point> in_lane;  // when its work on the other threads began
  };
  using Clients = std::map<std::string, Client>;
  struct Waiting {
    Work work;
    std::vector<Clients::value_type*> clients;  // never empty; forgotten after they leave
    bool is_left = false;                       // the only client no longer waits
  };
  // Work that lost its place, and its clients.
  struct Dropped {
    Work work;
    std::vector<std::string> clients;
  };
  // Work that was taken, and the client whose turn it was.
  struct Taken {
    Work work;
    std::string client;
    Clock::time_point began;
  };
  using Turn = std::deque<std::string>::iterator;

  void Run(Lane lane);
  std::optional<Taken> WaitForNext(Lane lane);
  void Finished(Lane lane, const Taken& taken);
  std::optional<Taken> Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Taken> NextShort(Lane lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayStart(const Work& work) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasItsMemory(const Client& client, const Work& next) const;
  bool HasItsShare(const Client& client) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Overstays(Clock::time_point began) const;
  Clock::time_point ServesFrom(Lane lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Taken Take(const Turn& turn, uint64_t ticket, Lane lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Work Remove(uint64_t ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Append(uint64_t ticket, const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveLine(uint64_t ticket, Clients::value_type* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null: the client does not wait for the work.
  static Clients::value_type* EntryOf(const Waiting& waiting, const std::string& client);
  static size_t ShortestLine(const Waiting& waiting);
  std::optional<Dropped> MakeRoomFor(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Work> TakeStopped() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Admit(const Work& work) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_.empty() && stats_.running == 0;
  }

  const Options options_;
  mutable Mutex mutex_;
  size_t max_waiting_ ABSL_GUARDED_BY(mutex_);
  size_t max_of_a_client_ ABSL_GUARDED_BY(mutex_);
  CondVar changed_;  // work was added, finished or closed
  absl::flat_hash_map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);  // by ticket
  size_t readmitted_ ABSL_GUARDED_BY(mutex_) = 0;                           // of those
  uint64_t last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  Clients clients_ ABSL_GUARDED_BY(mutex_);  // those with work
  // Clients with waiting work, next first; and those with short work, for the short threads.
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> short_turns_ ABSL_GUARDED_BY(mutex_);
  int overtakes_ ABSL_GUARDED_BY(mutex_) = 0;  // how often others overtook the first in turn
  // When the running work of Lane::kAll and Lane::kShort began.
  std::multiset<Clock::time_point> began_ ABSL_GUARDED_BY(mutex_);
  std::multiset<Clock::time_point> short_began_ ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);  // but for `waiting`
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // written only by the constructor
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_WORK_QUEUE_H_
