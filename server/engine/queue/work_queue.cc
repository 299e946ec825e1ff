#include "server/engine/queue/work_queue.h"

#include <sys/resource.h>

#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/events/rejection.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

constexpr const char* kQueueFull = "queue_full";
constexpr const char* kClientLimit = "client_limit";

}  // namespace

WorkQueue::WorkQueue(const Options& options)
    : options_(options),
      max_waiting_(options.max_waiting),
      max_of_a_client_(options.max_of_a_client),
      running_({.threads = static_cast<size_t>(options.threads),
                .short_threads = static_cast<size_t>(options.short_threads),
                .turn_seconds = options.turn_seconds,
                .overstay_seconds = options.overstay_seconds,
                .max_bytes = options.max_bytes}) {
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
  return work.is_readmitted ? absl::OkStatus() : AdmitWithinLimits(work);
}

// Work that a free thread is about to take does not count as waiting.
absl::Status WorkQueue::AdmitWithinLimits(const Work& work) const {
  const size_t unfinished = lines_.waiting_of(work.client) + running_.count_of(work.client);
  if (unfinished > 0 && unfinished >= work.max_of_client.value_or(max_of_a_client_)) {
    return Rejected(kClientLimit,
                    absl::StrCat("this client has ", unfinished,
                                 " requests waiting or in work, and may have no more at a time; "
                                 "try again in a second"),
                    /*retry_after_seconds=*/1);
  }
  const size_t places = lines_.places();
  if (places < max_waiting_ + running_.FreeThreadsFor(work)) return absl::OkStatus();
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

// Admits the work, if need be after removing work whose callers have left, or the newest of the
// longest line. The removed work is told after the lock is released: it may take locks of its own.
absl::StatusOr<uint64_t> WorkQueue::Add(Work work) {
  std::vector<Work> stopped;
  std::optional<ClientLines::Dropped> dropped;
  absl::StatusOr<uint64_t> added;
  {
    MutexLock lock(mutex_);
    absl::Status status = Admit(work);
    // An emptier queue does not help work that is larger than the memory for all solves.
    if (RefusesClient(status)) {
      stopped = lines_.RemoveStopped();
      status = Admit(work);
    }
    if (RejectionOf(status) == kQueueFull) {
      dropped = lines_.MakeRoomFor(work.client);
      if (dropped.has_value()) status = absl::OkStatus();
    }
    if (status.ok()) {
      added = lines_.Add(std::move(work));
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
  if (lines_.Share(ticket, client)) changed_.SignalAll();
}

void WorkQueue::Unshare(uint64_t ticket, const std::string& client) {
  MutexLock lock(mutex_);
  if (lines_.Unshare(ticket, client)) changed_.SignalAll();
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
  return {
      .waiting = lines_.waiting(), .running = running_.count(), .running_bytes = running_.bytes()};
}

// The first work in turn that fits into memory, of a client that has not its share of the threads
// yet, or else of one that has. nullopt where there is none, or where the first in turn has been
// overtaken too often: nothing starts then until enough memory is free for it, so that large solves
// are not starved by small ones. Once all threads run something, only clients that have none of
// them are served, beside work that has outlasted its turn.
std::optional<WorkQueue::Taken> WorkQueue::Next(Clock::time_point now) {
  constexpr int kMaxOvertakes = 16;
  const std::deque<std::string>& turns = lines_.turns(Kind::kAll);
  const std::string* chosen = nullptr;
  bool overtakes = false;
  for (const std::string& client : turns) {
    const Work& first = lines_.work(lines_.tickets(Kind::kAll, client).front());
    if (running_.HasItsMemory(client, first)) continue;
    if (running_.HasNoThreadLeft() && running_.HasAThread(client)) continue;
    const bool may_start = running_.HasRoomFor(first);
    const bool is_greedy = running_.HasItsShare(client) && turns.size() > 1;
    if (may_start && (chosen == nullptr || !is_greedy)) chosen = &client;
    if (may_start && !is_greedy) break;
    if (!may_start && overtakes_ >= kMaxOvertakes) return std::nullopt;
    overtakes |= !may_start;
  }
  if (chosen == nullptr) return std::nullopt;
  overtakes_ = overtakes ? overtakes_ + 1 : 0;
  return Take(lines_.tickets(Kind::kAll, *chosen).front(),
              {.client = *chosen, .lane = Lane::kAll, .at = now});
}

// The first short work in turn, of a client whose last one was short. It takes little memory, and
// does not count as overtaking.
std::optional<WorkQueue::Taken> WorkQueue::NextShort(Lane lane, Clock::time_point now) {
  for (const std::string& client : lines_.turns(Kind::kShort)) {
    if (running_.Overstays(client, now)) continue;
    for (const uint64_t ticket : lines_.tickets(Kind::kShort, client)) {
      if (!running_.HasRoomFor(lines_.work(ticket))) continue;
      return Take(ticket, {.client = client, .lane = lane, .at = now});
    }
  }
  return std::nullopt;
}

// Takes waiting work to run it, in the turn of one of its clients, which goes to the end of the
// turns of this lane: a client with many requests delays others by one of them at a time. Its turn
// in the other lane stays.
WorkQueue::Taken WorkQueue::Take(uint64_t ticket, RunningWork::Started started) {
  lines_.EndTurn(started.lane == Lane::kAll ? Kind::kAll : Kind::kShort, started.client);
  Taken taken = {lines_.Remove(ticket), std::move(started)};
  taken.started.bytes = taken.work.bytes;
  running_.Start(taken.started);
  // The spare threads look when it will have overstayed.
  if (taken.started.lane == Lane::kShort) changed_.SignalAll();
  return taken;
}

// Blocks until there is work that may start; nullopt once the queue is closed and empty.
std::optional<WorkQueue::Taken> WorkQueue::WaitForNext(Lane lane) {
  MutexLock lock(mutex_);
  while (true) {
    const Clock::time_point now = Clock::now();
    Clock::time_point look_again = running_.ServesFrom(lane);
    if (look_again <= now) {
      std::optional<Taken> next = lane == Lane::kAll ? Next(now) : NextShort(lane, now);
      if (next.has_value()) return next;
      look_again = Clock::time_point::max();
    }
    if (closed_ && lines_.waiting() == 0) return std::nullopt;
    if (look_again == Clock::time_point::max()) {
      changed_.Wait(mutex_);
    } else {
      changed_.WaitUntil(mutex_, look_again);
    }
  }
}

// Memory that becomes free may let work of another client start: all threads look again.
void WorkQueue::Finished(const RunningWork::Started& started) {
  MutexLock lock(mutex_);
  running_.Finish(started);
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
    Finished(taken->started);
  }
}

}  // namespace stowage
