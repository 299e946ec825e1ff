// A call of the C interface: work on a thread of its own, and the events that it leaves for the
// caller.
#ifndef STOWAGE_CLIENT_C_CALL_H_
#define STOWAGE_CLIENT_C_CALL_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

// The opaque type of stowage.h, which every language knows by this name.
struct stowage_call {  // NOLINT(readability-identifier-naming)
 public:
  // Returns the last event.
  using Work = std::function<std::string(stowage_call& call, const std::stop_token& stop)>;

  // A call that has ended with this event.
  explicit stowage_call(std::string last);
  // Runs `work` on a thread. It may throw std::bad_alloc, which is an event.
  explicit stowage_call(Work work);
  // Cancels, and waits for the thread.
  ~stowage_call();

  // For the work. Dropped once the call is cancelled.
  void Add(std::string event);
  // In place of the last one that was given so and that nobody has seen.
  void SetProgress(std::string event);

  // For the caller: as stowage_next() and stowage_cancel().
  const char* Next(std::chrono::milliseconds timeout);
  void Cancel();

 private:
  void Run(const Work& work, const std::stop_token& stop);
  void End(std::string last);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> events_;  // guarded by mutex_, as all below but the last two
  std::string progress_;            // empty: none
  bool is_cancelled_ = false;
  bool has_ended_ = false;

  std::string current_;  // what Next() returned
  std::jthread thread_;
};

#endif  // STOWAGE_CLIENT_C_CALL_H_
