#include "server/engine/work_queue.h"

#include <sys/resource.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/events/rejection.h"
#include "solver/base/clock.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

constexpr const char* kQueueFull = "queue_full";
constexpr const char* kClientLimit = "client_limit";

}  // namespace

WorkQueue::WorkQueue(const Options& options)
    : options_(options),
      max_waiting_(options.max_waiting),
      max_of_a_client_(options.max_of_a_client) {
  for (int i = 0; i < options.threads + options.spare_threads; ++i) {
    threads_.emplace_back([this] { Run(Lane::kAll); });
  }
  for (int i = 0; i < options.short_threads; ++i) {
    threads_.emplace_back([this] { Run(Lane::kShort); });
    threads_.emplace_back([this] { Run(Lane::kSpare); });
  }
}

WorkQueue::~WorkQueue() {
  Close();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status WorkQueue::Admit(const Work& work) const {
  if (closed_) return absl::UnavailableError("the server is draining; ask another server");
  if (work.bytes > options_.max_bytes) {
    return Rejected(
        "solve_memory",
        absl::StrCat("it would need ", FormatBytes(work.bytes), ", and ",
                     FormatBytes(options_.max_bytes), " are set aside for all solves together"),
        /*retry_after_seconds=*/0);
  }
  if (work.is_readmitted) return absl::OkStatus();
  const auto client = clients_.find(work.client);
  if (client != clients_.end()) {
    const size_t unfinished = client->second.tickets.size() + client->second.running;
    if (unfinished >= work.max_of_client.value_or(max_of_a_client_)) {
      return Rejected(kClientLimit,
                      absl::StrCat("this client has ", unfinished,
                                   " requests waiting or in work, and may have no more at a time; "
                                   "try again in a second"),
                      /*retry_after_seconds=*/1);
    }
  }
  // Work that a free thread is about to take does not count as waiting.
  const auto threads = static_cast<size_t>(options_.threads);
  size_t free_threads = threads - std::min(threads, began_.size());
  if (work.is_short) {
    const size_t with_short = threads + static_cast<size_t>(options_.short_threads);
    free_threads = with_short - std::min(with_short, stats_.running);
  }
  const size_t places = waiting_.size() - readmitted_;
  if (places < max_waiting_ + free_threads) return absl::OkStatus();
  return Rejected(
      kQueueFull,
      absl::StrCat("the queue is full: ", places, " requests are waiting; try again in a second"),
      /*retry_after_seconds=*/1);
}

bool WorkQueue::RefusesClient(const absl::Status& status) {
  const std::string reason = RejectionOf(status);
  return reason == kClientLimit || reason == kQueueFull;
}

void WorkQueue::SetMaxWaiting(size_t count) {
  MutexLock lock(mutex_);
  max_waiting_ = count;
}

void WorkQueue::SetMaxOfAClient(size_t count) {
  MutexLock lock(mutex_);
  max_of_a_client_ = count;
}

size_t WorkQueue::max_waiting() const {
  MutexLock lock(mutex_);
  return max_waiting_;
}

WorkQueue::Clients::value_type* WorkQueue::EntryOf(const Waiting& waiting,
                                                   const std::string& client) {
  const auto found =
      absl::c_find_if(waiting.clients, [&](const auto* entry) { return entry->first == client; });
  return found != waiting.clients.end() ? *found : nullptr;
}

size_t WorkQueue::ShortestLine(const Waiting& waiting) {
  size_t shortest = SIZE_MAX;
  for (const auto* client : waiting.clients) shortest = std::min(shortest, client->second.places);
  return shortest;
}

// Takes work out whose clients all have so long a line that it is still not the shorter one once
// `name` has the place: lines become equal, and then nobody gains. Of such work the newest of those
// whose shortest line is the longest. nullopt: there is none. O(waiting work and its clients).
std::optional<WorkQueue::Dropped> WorkQueue::MakeRoomFor(const std::string& name) {
  const auto asking = clients_.find(name);
  const size_t places = asking != clients_.end() ? asking->second.places : 0;
  std::pair<size_t, uint64_t> longest = {1 + places, UINT64_MAX};  // a line, and work in it
  for (const auto& [ticket, waiting] : waiting_) {
    if (waiting.work.drop == nullptr || waiting.work.is_readmitted) continue;
    longest = std::max(longest, {ShortestLine(waiting), ticket});
  }
  const uint64_t newest = longest.second;
  if (newest == UINT64_MAX) return std::nullopt;
  std::vector<std::string> clients;
  for (const auto* client : waiting_[newest].clients) clients.push_back(client->first);
  return Dropped{Remove(newest), std::move(clients)};
}

// Admits the work, if need be after removing work whose callers have left, or the newest of the
// longest line. The removed work is told after the lock is released: it may take locks of its own.
absl::StatusOr<uint64_t> WorkQueue::Add(Work work) {
  std::vector<Work> stopped;
  std::optional<Dropped> dropped;
  absl::StatusOr<uint64_t> added;
  {
    MutexLock lock(mutex_);
    absl::Status status = Admit(work);
    // An emptier queue does not help work that is larger than the memory for all solves.
    if (RefusesClient(status)) {
      stopped = TakeStopped();
      status = Admit(work);
    }
    if (RejectionOf(status) == kQueueFull && (dropped = MakeRoomFor(work.client)).has_value()) {
      status = absl::OkStatus();
    }
    if (status.ok()) {
      added = ++last_ticket_;
      const std::string client = work.client;
      if (work.is_readmitted) ++readmitted_;
      waiting_.emplace(last_ticket_, Waiting{std::move(work), {}});
      Append(last_ticket_, client);
      changed_.SignalAll();
    } else {
      added = std::move(status);
    }
  }
  for (Work& abandoned : stopped) abandoned.run();
  if (dropped.has_value()) {
    dropped->work.drop(dropped->clients,
                       Rejected(kQueueFull,
                                "the queue is full, and this client has more in it than others; "
                                "try again in a second",
                                /*retry_after_seconds=*/1));
  }
  return added;
}

void WorkQueue::Share(uint64_t ticket, const std::string& client) {
  MutexLock lock(mutex_);
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return;
  Waiting& waiting = found->second;
  const bool replaces = std::exchange(waiting.is_left, false);
  if (EntryOf(waiting, client) != nullptr) return;
  Append(ticket, client);
  if (replaces) LeaveLine(ticket, waiting.clients.front());
  changed_.SignalAll();
}

// Work is always in a line, so that it runs, if only to report that nobody waits for it.
void WorkQueue::Unshare(uint64_t ticket, const std::string& client) {
  MutexLock lock(mutex_);
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return;
  Waiting& waiting = found->second;
  Clients::value_type* const entry = EntryOf(waiting, client);
  if (entry == nullptr) return;
  if (waiting.clients.size() == 1) {
    waiting.is_left = true;
    return;
  }
  LeaveLine(ticket, entry);
  changed_.SignalAll();
}

// Puts waiting work at the end of a client's line.
void WorkQueue::Append(uint64_t ticket, const std::string& name) {
  Waiting& waiting = waiting_[ticket];
  Clients::value_type& entry = *clients_.try_emplace(name).first;
  waiting.clients.push_back(&entry);
  Client& client = entry.second;
  if (client.tickets.empty()) turns_.push_back(name);
  client.tickets.push_back(ticket);
  if (!waiting.work.is_readmitted) ++client.places;
  if (!waiting.work.is_short) return;
  if (client.short_tickets.empty()) short_turns_.push_back(name);
  client.short_tickets.push_back(ticket);
}

// Takes waiting work out of a client's line. A client without work loses its turn and is forgotten.
void WorkQueue::LeaveLine(uint64_t ticket, Clients::value_type* entry) {
  auto& [name, client] = *entry;
  Waiting& waiting = waiting_[ticket];
  std::erase(waiting.clients, entry);
  std::erase(client.tickets, ticket);
  std::erase(client.short_tickets, ticket);
  if (!waiting.work.is_readmitted) --client.places;
  if (client.short_tickets.empty()) std::erase(short_turns_, name);
  if (!client.tickets.empty()) return;
  std::erase(turns_, name);
  if (client.running == 0) clients_.erase(clients_.find(name));
}

// Takes waiting work out of the lines of its clients.
Work WorkQueue::Remove(uint64_t ticket) {
  const auto found = waiting_.find(ticket);
  while (!found->second.clients.empty()) LeaveLine(ticket, found->second.clients.back());
  Work work = std::move(found->second.work);
  waiting_.erase(found);
  if (work.is_readmitted) --readmitted_;
  return work;
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
  for (const uint64_t ticket : tickets) stopped.push_back(Remove(ticket));
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
  return stats_.running_bytes + work.bytes <= options_.max_bytes || work.stop.stop_requested();
}

bool WorkQueue::HasItsMemory(const Client& client, const Work& next) const {
  if (client.running == 0 || next.stop.stop_requested()) return false;
  return next.bytes > options_.max_bytes / 4 * 3 - client.running_bytes;
}

// Whether one more thread would be the last, and others wait. With a single thread turns are all
// there is.
bool WorkQueue::HasItsShare(const Client& client) const {
  const auto threads = static_cast<size_t>(options_.threads);
  return threads > 1 && client.holds + 1 >= threads && turns_.size() > 1;
}

bool WorkQueue::Overstays(Clock::time_point began) const {
  return Clock::now() >= After(began, options_.overstay_seconds);
}

// From when on a thread of the lane may take work. Once as much runs as there are threads, more may
// start when less than that is within its turn. Spare threads for short work serve when the last of
// the threads for it will have overstayed; never as long as one is free.
WorkQueue::Clock::time_point WorkQueue::ServesFrom(Lane lane) const {
  const auto threads = static_cast<size_t>(options_.threads);
  const auto short_threads = static_cast<size_t>(options_.short_threads);
  switch (lane) {
    case Lane::kAll:
      if (began_.size() < threads) return Clock::time_point::min();
      return After(*std::prev(began_.end(), options_.threads), options_.turn_seconds);
    case Lane::kShort:
      return Clock::time_point::min();
    case Lane::kSpare:
      if (short_began_.size() < short_threads) return Clock::time_point::max();
      return After(*short_began_.rbegin(), options_.overstay_seconds);
  }
  return Clock::time_point::max();
}

// Takes work of the client at `turn`, which goes to the end of the turns of this lane: a client
// with many requests delays others by one of them at a time. Its turn in the other lane stays.
WorkQueue::Taken WorkQueue::Take(const Turn& turn, uint64_t ticket, Lane lane) {
  std::deque<std::string>& turns = lane == Lane::kAll ? turns_ : short_turns_;
  std::string name = std::move(*turn);
  turns.erase(turn);
  turns.push_back(name);
  Client& client = clients_[name];
  ++client.running;
  ++stats_.running;
  client.running_bytes += waiting_[ticket].work.bytes;
  const Clock::time_point now = Clock::now();
  if (lane == Lane::kAll) {
    ++client.holds;
    began_.insert(now);
  } else {
    client.in_lane.insert(now);
  }
  if (lane == Lane::kShort) {
    short_began_.insert(now);
    changed_.SignalAll();  // the spare threads look when it will have overstayed
  }
  Taken taken = {Remove(ticket), std::move(name), now};
  stats_.running_bytes += taken.work.bytes;
  return taken;
}

// The first work in turn that fits into memory, of a client that has not its share of the threads
// yet, or else of one that has. nullopt where there is none, or where the first in turn has been
// overtaken too often: nothing starts then until enough memory is free for it, so that large solves
// are not starved by small ones. Once all threads run something, only clients that have none of
// them are served, beside work that has outlasted its turn.
std::optional<WorkQueue::Taken> WorkQueue::Next() {
  constexpr int kMaxOvertakes = 16;
  const bool is_spare = began_.size() >= static_cast<size_t>(options_.threads);
  std::optional<Turn> greedy;
  bool overtakes = false;
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    const Client& client = clients_[*turn];
    const Work& first = waiting_[client.tickets.front()].work;
    if (HasItsMemory(client, first) || (is_spare && client.holds > 0)) continue;
    const bool may_start = MayStart(first);
    if (may_start && !HasItsShare(client)) {
      overtakes_ = overtakes ? overtakes_ + 1 : 0;
      return Take(turn, client.tickets.front(), Lane::kAll);
    }
    if (may_start && !greedy.has_value()) greedy = turn;
    if (!may_start && overtakes_ >= kMaxOvertakes) return std::nullopt;
    overtakes |= !may_start;
  }
  if (!greedy.has_value()) return std::nullopt;
  overtakes_ = overtakes ? overtakes_ + 1 : 0;
  return Take(*greedy, clients_[**greedy].tickets.front(), Lane::kAll);
}

// The first short work in turn, of a client whose last one was short. It takes little memory, and
// does not count as overtaking.
std::optional<WorkQueue::Taken> WorkQueue::NextShort(Lane lane) {
  for (auto turn = short_turns_.begin(); turn != short_turns_.end(); ++turn) {
    const Client& client = clients_[*turn];
    if (!client.in_lane.empty() && Overstays(*client.in_lane.begin())) continue;
    for (const uint64_t ticket : client.short_tickets) {
      if (MayStart(waiting_[ticket].work)) return Take(turn, ticket, lane);
    }
  }
  return std::nullopt;
}

// Blocks until there is work that may start; nullopt once the queue is closed and empty.
std::optional<WorkQueue::Taken> WorkQueue::WaitForNext(Lane lane) {
  MutexLock lock(mutex_);
  while (true) {
    Clock::time_point look_again = ServesFrom(lane);
    if (look_again <= Clock::now()) {
      if (std::optional<Taken> next = lane == Lane::kAll ? Next() : NextShort(lane)) return next;
      look_again = Clock::time_point::max();
    }
    if (closed_ && waiting_.empty()) return std::nullopt;
    if (look_again == Clock::time_point::max()) {
      changed_.Wait(mutex_);
    } else {
      changed_.WaitUntil(mutex_, look_again);
    }
  }
}

// Memory that becomes free may let work of another client start: all threads look again.
void WorkQueue::Finished(Lane lane, const Taken& taken) {
  MutexLock lock(mutex_);
  --stats_.running;
  stats_.running_bytes -= taken.work.bytes;
  const auto client = clients_.find(taken.client);
  --client->second.running;
  client->second.running_bytes -= taken.work.bytes;
  if (lane == Lane::kAll) {
    --client->second.holds;
    began_.erase(began_.find(taken.began));
  } else {
    client->second.in_lane.erase(client->second.in_lane.find(taken.began));
  }
  if (lane == Lane::kShort) short_began_.erase(short_began_.find(taken.began));
  if (client->second.running == 0 && client->second.tickets.empty()) clients_.erase(client);
  changed_.SignalAll();
}

void WorkQueue::Run(Lane lane) {
  // On Linux niceness is per thread. A failure only costs the lower priority.
  if (options_.niceness > 0) setpriority(PRIO_PROCESS, 0, options_.niceness);
  while (std::optional<Taken> taken = WaitForNext(lane)) {
    taken->work.run();
    // Both may hold the request: destroyed before the work counts as done.
    taken->work.run = nullptr;
    taken->work.drop = nullptr;
    Finished(lane, *taken);
  }
}

}  // namespace stowage
