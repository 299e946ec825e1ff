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
  // Runs `work` on a thread. What it throws is an event. Throws std::system_error without a thread.
  explicit stowage_call(Work work);
  // Cancels, and waits for the thread.
  ~stowage_call();

  // For the work. Dropped once the call is cancelled, or once there are many newer ones.
  void Add(std::string event);
  // In place of the last one that was given so and that nobody has seen.
  void SetProgress(std::string event);

  // For the caller: as stowage_next() and stowage_cancel().
  const char* Next(std::chrono::milliseconds timeout);
  void Cancel();
  bool HasEnded();
  // Whether it was made before a fork(), so that this process does not have its thread.
  bool IsOfAnotherProcess() const;

 private:
  void Run(const Work& work, const std::stop_token& stop);
  void End(std::string last);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> events_;  // guarded by mutex_, as all below but the last three
  std::string progress_;            // empty: none
  bool is_cancelled_ = false;
  bool has_ended_ = false;
  // When Next() returned progress.
  std::chrono::steady_clock::time_point shown_ = {};
  std::string fallback_;  // the last event where there is no memory for another one

  std::string current_;  // what Next() returned
  const int process_;
  std::jthread thread_;
};

#endif  // STOWAGE_CLIENT_C_CALL_H_
