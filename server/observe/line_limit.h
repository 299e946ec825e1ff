// A limit on lines of the log that repeat.
#ifndef STOWAGE_SERVER_OBSERVE_LINE_LIMIT_H_
#define STOWAGE_SERVER_OBSERVE_LINE_LIMIT_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "solver/base/mutex.h"

namespace stowage {

// Admits one line of each kind a second, so that a client that repeats itself cannot fill the log.
// Kinds are the program's own and few. Thread-safe.
class LineLimit {
 public:
  using Clock = std::chrono::steady_clock;

  // How many events of the kind the line stands for, with those since its last line; nullopt: none
  // may be written now.
  std::optional<int64_t> Admit(const std::string& kind, Clock::time_point now);

 private:
  struct Kind {
    int64_t events = 0;  // since the last line
    Clock::time_point next_line;
  };

  Mutex mutex_;
  std::map<std::string, Kind> kinds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_LINE_LIMIT_H_
