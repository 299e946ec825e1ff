// Writes lines to a file or a pipe, and never waits for whoever reads it.
#ifndef STOWAGE_SERVER_OBSERVE_LOG_WRITER_H_
#define STOWAGE_SERVER_OBSERVE_LOG_WRITER_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "solver/base/mutex.h"

namespace stowage {

// A line is written at once, by its caller, as long as the reader keeps up: nothing is lost then,
// even where the process aborts. Where a pipe or socket is full, lines wait in memory; a thread
// writes them once there is room, and beyond a limit of bytes they are dropped and counted. A line
// says how many, as soon as there is room again. Thread-safe.
class LogWriter {
 public:
  // The line that tells of so many dropped ones.
  using DroppedLine = std::function<std::string(int64_t)>;

  // Borrows `fd`. At most `max_bytes` of lines wait.
  LogWriter(int fd, size_t max_bytes, DroppedLine dropped_line);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Has a thread write what waits; before, only later lines and Flush() do. Once.
  void Start();
  void Write(std::string line);
  // Waits until all is written, or `deadline`; false: the deadline came first.
  bool Flush(std::chrono::steady_clock::time_point deadline);

  // Lines that were not written, since the start.
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  ssize_t WriteSome(absl::string_view text) const;
  void Drain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(std::string line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Lose(int64_t lines) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  int fd_;
  bool owns_fd_ = false;
  bool is_socket_ = false;
  const size_t max_bytes_;
  const DroppedLine dropped_line_;
  std::atomic<int64_t> dropped_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::list<std::string> lines_ ABSL_GUARDED_BY(mutex_);  // the first one without what is written
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;              // of these
  int64_t untold_ ABSL_GUARDED_BY(mutex_) = 0;            // dropped, and no line says so yet
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_LOG_WRITER_H_
