// The work that the threads of a queue run, and the rules that follow from it: who may start more,
// and which threads serve.
#ifndef STOWAGE_SERVER_ENGINE_QUEUE_RUNNING_WORK_H_
#define STOWAGE_SERVER_ENGINE_QUEUE_RUNNING_WORK_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "server/engine/queue/work.h"

namespace stowage {

// Not thread-safe: WorkQueue's lock guards it. The time is an argument.
class RunningWork {
 public:
  using Clock = std::chrono::steady_clock;
  // What a thread runs: all work; short work; that while others overstay.
  enum class Lane { kAll, kShort, kSpare };
  // As in WorkQueue::Options.
  struct Limits {
    size_t threads = 1;
    size_t short_threads = 0;
    double turn_seconds = 1;
    double overstay_seconds = 0.25;
    int64_t max_bytes = INT64_MAX;
  };
  explicit RunningWork(const Limits& limits) : limits_(limits) {}

  // Work of so many bytes starts in a client's turn; the same arguments end it.
  struct Started {
    std::string client;
    int64_t bytes = 0;
    Lane lane = Lane::kAll;
    Clock::time_point at;
  };
  void Start(const Started& started);
  void Finish(const Started& started);

  size_t count() const { return count_; }
  int64_t bytes() const { return bytes_; }
  size_t count_of(const std::string& client) const { return Of(client).count; }

  // From when on a thread of the lane may take work. Once as much runs as there are threads, more
  // may start when less than that is within its turn. Spare threads for short work serve when the
  // last of the threads for it will have overstayed; never as long as one is free.
  Clock::time_point ServesFrom(Lane lane) const;
  // Whether a thread that takes work of Lane::kAll now is a spare one.
  bool HasNoThreadLeft() const { return began_.size() >= limits_.threads; }
  // Those that are about to take such work.
  size_t FreeThreadsFor(const Work& work) const;

  // Whether there is memory for it, or nobody waits for it any more.
  bool HasRoomFor(const Work& next) const;
  // Whether the client must leave the rest of the memory to others.
  bool HasItsMemory(const std::string& client, const Work& next) const;
  // Whether one more thread would be the last. With a single thread turns are all there is.
  bool HasItsShare(const std::string& client) const;
  // Whether the client has a thread of Lane::kAll.
  bool HasAThread(const std::string& client) const { return Of(client).holds > 0; }
  // Whether some of the client's work on the threads for short work was not short.
  bool Overstays(const std::string& client, Clock::time_point now) const;

 private:
  struct Client {
    size_t count = 0;  // on all threads
    int64_t bytes = 0;
    size_t holds = 0;                          // threads of Lane::kAll
    std::multiset<Clock::time_point> in_lane;  // when its work on the other threads began
  };
  const Client& Of(const std::string& client) const;

  const Limits limits_;
  std::map<std::string, Client> clients_;  // those with running work
  size_t count_ = 0;
  int64_t bytes_ = 0;
  // When the work of Lane::kAll and Lane::kShort began.
  std::multiset<Clock::time_point> began_;
  std::multiset<Clock::time_point> short_began_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_QUEUE_RUNNING_WORK_H_
