#include "server/engine/work_queue.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "server/observe/observer.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

// Metrics count rejections by `reason`, which travels as a payload of the status.
absl::Status Rejection(const char* reason, const std::string& message) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kRejectionPayload, absl::Cord(reason));
  return status;
}

}  // namespace

WorkQueue::WorkQueue(const Options& options) : options_(options) {
  threads_.reserve(static_cast<size_t>(options.threads));
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkQueue::~WorkQueue() {
  Close();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status WorkQueue::Admit(const Work& work) const {
  if (closed_) return absl::UnavailableError("the server is draining; ask another server");
  if (work.bytes > options_.most_bytes) {
    return Rejection("solve_memory", absl::StrCat("it would need ", FormatBytes(work.bytes),
                                                  ", and ", FormatBytes(options_.most_bytes),
                                                  " are set aside for all solves together"));
  }
  // Work that a free thread is about to take does not count as waiting.
  const size_t free_threads = threads_.size() - std::min(threads_.size(), stats_.running);
  if (stats_.waiting >= options_.most_waiting + free_threads) {
    return Rejection("queue_full", absl::StrCat("the queue is full: ", stats_.waiting,
                                                " requests are waiting; try again in a second"));
  }
  const auto client = clients_.find(work.client);
  if (client == clients_.end()) return absl::OkStatus();
  const size_t unfinished = client->second.waiting.size() + client->second.running;
  if (unfinished < options_.most_of_a_client) return absl::OkStatus();
  return Rejection("client_limit", absl::StrCat("this client has ", unfinished,
                                                " requests waiting or in work, and may ",
                                                "have no more at a time; try again in a second"));
}

// Admits the work, if need be after removing work whose callers have left. The removed work runs
// after the lock is released: it only reports its end, and may take locks of its own.
absl::StatusOr<size_t> WorkQueue::Add(Work work) {
  std::vector<Work> stopped;
  absl::StatusOr<size_t> added;
  {
    MutexLock lock(mutex_);
    absl::Status status = Admit(work);
    // An emptier queue does not help work that is larger than the memory for all solves.
    if (absl::IsResourceExhausted(status) && work.bytes <= options_.most_bytes) {
      stopped = TakeStopped();
      status = Admit(work);
    }
    if (status.ok()) {
      added = stats_.waiting++;
      Client& client = clients_[work.client];
      if (client.waiting.empty()) turns_.push_back(work.client);
      client.waiting.push_back(std::move(work));
      changed_.SignalAll();
    } else {
      added = std::move(status);
    }
  }
  for (Work& abandoned : stopped) abandoned.run();
  return added;
}

// Removes the work whose callers have left from the queue, and the clients without work from
// `turns_` and `clients_`. O(waiting work), but only called when the queue refuses something.
std::vector<Work> WorkQueue::TakeStopped() {
  std::vector<Work> stopped;
  for (auto& [name, client] : clients_) {
    std::deque<Work> left;
    for (Work& work : client.waiting) {
      if (work.stop.stop_requested()) {
        stopped.push_back(std::move(work));
      } else {
        left.push_back(std::move(work));
      }
    }
    client.waiting = std::move(left);
  }
  stats_.waiting -= stopped.size();
  std::erase_if(turns_, [this](const std::string& name) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return clients_[name].waiting.empty();
  });
  std::erase_if(clients_, [](const auto& entry) {
    return entry.second.waiting.empty() && entry.second.running == 0;
  });
  return stopped;
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

WorkQueue::Stats WorkQueue::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

// Takes the oldest work of the client at `turn`. A client that has more goes to the end of the
// turns, so that a client with many requests delays others by one of them at a time.
Work WorkQueue::Take(std::deque<std::string>::iterator turn) {
  const std::string name = std::move(*turn);
  turns_.erase(turn);
  Client& client = clients_[name];
  Work work = std::move(client.waiting.front());
  client.waiting.pop_front();
  if (!client.waiting.empty()) turns_.push_back(name);
  ++client.running;
  --stats_.waiting;
  ++stats_.running;
  stats_.running_bytes += work.bytes;
  return work;
}

// The first work in turn that fits into memory; nullopt where there is none, or where the first in
// turn has been overtaken too often: nothing starts then until enough memory is free for it, so
// that large solves are not starved by small ones.
std::optional<Work> WorkQueue::Next() {
  constexpr int kMostOvertakes = 16;
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    const Work& work = clients_[*turn].waiting.front();
    const bool room = stats_.running_bytes + work.bytes <= options_.most_bytes;
    if (room || work.stop.stop_requested()) {
      overtakes_ = turn == turns_.begin() ? 0 : overtakes_ + 1;
      return Take(turn);
    }
    if (overtakes_ >= kMostOvertakes) return std::nullopt;
  }
  return std::nullopt;
}

// Blocks until there is work that may start; false once the queue is closed and empty.
bool WorkQueue::TakeNext(Work* work) {
  MutexLock lock(mutex_);
  while (true) {
    if (std::optional<Work> next = Next()) {
      *work = *std::move(next);
      return true;
    }
    if (closed_ && stats_.waiting == 0) return false;
    changed_.Wait(mutex_);
  }
}

void WorkQueue::Run() {
  // On Linux niceness is per thread. A failure only costs the lower priority.
  if (options_.niceness > 0) setpriority(PRIO_PROCESS, 0, options_.niceness);
  Work work;
  while (TakeNext(&work)) {
    work.run();
    work.run = nullptr;  // destroyed before the work counts as done
    MutexLock lock(mutex_);
    // Memory that becomes free may let work of another client start: all threads look again.
    --stats_.running;
    stats_.running_bytes -= work.bytes;
    const auto client = clients_.find(work.client);
    if (--client->second.running == 0 && client->second.waiting.empty()) clients_.erase(client);
    changed_.SignalAll();
  }
}

}  // namespace stowage
