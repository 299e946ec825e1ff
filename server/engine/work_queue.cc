#include "server/engine/work_queue.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/observe/observer.h"
#include "solver/base/units.h"

namespace stowage {
WorkQueue::WorkQueue(const Options& options) : options_(options) {
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Run(Lane::kAll); });
  for (int i = 0; i < options.short_threads; ++i) {
    threads_.emplace_back([this] { Run(Lane::kShort); });
  }
}

WorkQueue::~WorkQueue() {
  Close();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status WorkQueue::Admit(const Work& work) const {
  if (closed_) return absl::UnavailableError("the server is draining; ask another server");
  if (work.bytes > options_.most_bytes) {
    return Rejected(
        "solve_memory",
        absl::StrCat("it would need ", FormatBytes(work.bytes), ", and ",
                     FormatBytes(options_.most_bytes), " are set aside for all solves together"),
        /*retry_after_seconds=*/0);
  }
  // Work that a free thread is about to take does not count as waiting.
  const auto threads = static_cast<size_t>(options_.threads);
  size_t free_threads = threads - std::min(threads, held_);
  if (work.is_short) free_threads = threads_.size() - std::min(threads_.size(), stats_.running);
  if (waiting_.size() >= options_.most_waiting + free_threads) {
    return Rejected("queue_full",
                    absl::StrCat("the queue is full: ", waiting_.size(),
                                 " requests are waiting; try again in a second"),
                    /*retry_after_seconds=*/1);
  }
  const auto client = clients_.find(work.client);
  if (client == clients_.end()) return absl::OkStatus();
  const size_t unfinished = client->second.tickets.size() + client->second.running;
  if (unfinished < work.most_of_client.value_or(options_.most_of_a_client)) return absl::OkStatus();
  return Rejected("client_limit",
                  absl::StrCat("this client has ", unfinished,
                               " requests waiting or in work, and may have no more at a time; "
                               "try again in a second"),
                  /*retry_after_seconds=*/1);
}

// Admits the work, if need be after removing work whose callers have left. The removed work runs
// after the lock is released: it only reports its end, and may take locks of its own.
absl::StatusOr<uint64_t> WorkQueue::Add(Work work) {
  std::vector<Work> stopped;
  absl::StatusOr<uint64_t> added;
  {
    MutexLock lock(mutex_);
    absl::Status status = Admit(work);
    // An emptier queue does not help work that is larger than the memory for all solves.
    if (absl::IsResourceExhausted(status) && work.bytes <= options_.most_bytes) {
      stopped = TakeStopped();
      status = Admit(work);
    }
    if (status.ok()) {
      added = ++last_ticket_;
      const std::string client = work.client;
      waiting_.emplace(last_ticket_, Waiting{std::move(work), {}});
      Append(last_ticket_, client);
      changed_.SignalAll();
    } else {
      added = std::move(status);
    }
  }
  for (Work& abandoned : stopped) abandoned.run();
  return added;
}

void WorkQueue::Share(uint64_t ticket, const std::string& client) {
  MutexLock lock(mutex_);
  const auto waiting = waiting_.find(ticket);
  if (waiting == waiting_.end() || absl::c_linear_search(waiting->second.clients, client)) return;
  Append(ticket, client);
  changed_.SignalAll();
}

// Puts waiting work at the end of a client's line.
void WorkQueue::Append(uint64_t ticket, const std::string& name) {
  waiting_[ticket].clients.push_back(name);
  Client& client = clients_[name];
  if (client.tickets.empty()) turns_.push_back(name);
  client.tickets.push_back(ticket);
}

// Takes waiting work out of the lines of its clients. Clients without work lose their turn and are
// forgotten.
WorkQueue::Waiting WorkQueue::Remove(uint64_t ticket) {
  const auto found = waiting_.find(ticket);
  Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  for (const std::string& name : waiting.clients) {
    const auto client = clients_.find(name);
    std::erase(client->second.tickets, ticket);
    if (!client->second.tickets.empty()) continue;
    std::erase(turns_, name);
    if (client->second.running == 0) clients_.erase(client);
  }
  return waiting;
}

// Removes the work whose callers have left. O(waiting work), but only called when the queue refuses
// something.
std::vector<Work> WorkQueue::TakeStopped() {
  std::vector<uint64_t> tickets;
  for (const auto& [ticket, waiting] : waiting_) {
    if (waiting.work.stop.stop_requested()) tickets.push_back(ticket);
  }
  std::vector<Work> stopped;
  stopped.reserve(tickets.size());
  for (const uint64_t ticket : tickets) stopped.push_back(Remove(ticket).work);
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
  Stats stats = stats_;
  stats.waiting = waiting_.size();
  return stats;
}

bool WorkQueue::MayStart(const Work& work) const {
  return stats_.running_bytes + work.bytes <= options_.most_bytes || work.stop.stop_requested();
}

// Whether one more thread would be the last, and others wait. With a single thread turns are all
// there is.
bool WorkQueue::HasItsShare(const Client& client) const {
  const auto threads = static_cast<size_t>(options_.threads);
  return threads > 1 && client.holds + 1 >= threads && turns_.size() > 1;
}

// Takes work of the client at `turn`. A client that has more goes to the end of the turns, so that
// a client with many requests delays others by one of them at a time.
WorkQueue::Taken WorkQueue::Take(const Turn& turn, uint64_t ticket, Lane lane) {
  std::string name = std::move(*turn);
  turns_.erase(turn);
  Client& client = clients_[name];
  if (client.tickets.size() > 1) turns_.push_back(name);
  ++client.running;
  ++stats_.running;
  if (lane == Lane::kAll) {
    ++client.holds;
    ++held_;
  }
  Taken taken = {Remove(ticket).work, std::move(name)};
  stats_.running_bytes += taken.work.bytes;
  return taken;
}

// The first work in turn that fits into memory, of a client that has not its share of the threads
// yet, or else of one that has. nullopt where there is none, or where the first in turn has been
// overtaken too often: nothing starts then until enough memory is free for it, so that large solves
// are not starved by small ones.
std::optional<WorkQueue::Taken> WorkQueue::Next() {
  constexpr int kMostOvertakes = 16;
  std::optional<Turn> greedy;
  bool overtakes = false;
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    const Client& client = clients_[*turn];
    const bool may_start = MayStart(waiting_[client.tickets.front()].work);
    if (may_start && !HasItsShare(client)) {
      overtakes_ = overtakes ? overtakes_ + 1 : 0;
      return Take(turn, client.tickets.front(), Lane::kAll);
    }
    if (may_start && !greedy.has_value()) greedy = turn;
    if (!may_start && overtakes_ >= kMostOvertakes) return std::nullopt;
    overtakes |= !may_start;
  }
  if (!greedy.has_value()) return std::nullopt;
  overtakes_ = overtakes ? overtakes_ + 1 : 0;
  return Take(*greedy, clients_[**greedy].tickets.front(), Lane::kAll);
}

// The first short work in turn. It takes little memory, and does not count as overtaking.
std::optional<WorkQueue::Taken> WorkQueue::NextShort() {
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    for (const uint64_t ticket : clients_[*turn].tickets) {
      const Work& work = waiting_[ticket].work;
      if (work.is_short && MayStart(work)) return Take(turn, ticket, Lane::kShort);
    }
  }
  return std::nullopt;
}

// Blocks until there is work that may start; nullopt once the queue is closed and empty.
std::optional<WorkQueue::Taken> WorkQueue::WaitForNext(Lane lane) {
  MutexLock lock(mutex_);
  while (true) {
    if (std::optional<Taken> next = lane == Lane::kAll ? Next() : NextShort()) return next;
    if (closed_ && waiting_.empty()) return std::nullopt;
    changed_.Wait(mutex_);
  }
}

// Memory that becomes free may let work of another client start: all threads look again.
void WorkQueue::Finished(Lane lane, const Taken& taken) {
  MutexLock lock(mutex_);
  --stats_.running;
  stats_.running_bytes -= taken.work.bytes;
  const auto client = clients_.find(taken.client);
  --client->second.running;
  if (lane == Lane::kAll) {
    --client->second.holds;
    --held_;
  }
  if (client->second.running == 0 && client->second.tickets.empty()) clients_.erase(client);
  changed_.SignalAll();
}

void WorkQueue::Run(Lane lane) {
  // On Linux niceness is per thread. A failure only costs the lower priority.
  if (options_.niceness > 0) setpriority(PRIO_PROCESS, 0, options_.niceness);
  while (std::optional<Taken> taken = WaitForNext(lane)) {
    taken->work.run();
    taken->work.run = nullptr;  // destroyed before the work counts as done
    Finished(lane, *taken);
  }
}

}  // namespace stowage
