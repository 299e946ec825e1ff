#include "server/observe/line_limit.h"

#include <utility>

namespace stowage {

std::optional<int64_t> LineLimit::Admit(const std::string& kind, Clock::time_point now) {
  MutexLock lock(mutex_);
  Kind& its = kinds_[kind];
  ++its.events;
  if (now < its.next_line) return std::nullopt;
  its.next_line = now + std::chrono::seconds(1);
  return std::exchange(its.events, 0);
}

}  // namespace stowage
