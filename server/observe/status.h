// The status of a server for people and pages: its state, and figures of windows up to now
// (proto/stowage/v1/status.proto), all read from its metrics.
#ifndef STOWAGE_SERVER_OBSERVE_STATUS_H_
#define STOWAGE_SERVER_OBSERVE_STATUS_H_

#include <chrono>
#include <cstddef>
#include <list>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "server/observe/metrics.h"
#include "server/observe/status_window.h"
#include "solver/base/mutex.h"
#include "stowage/v1/status.pb.h"

namespace stowage {

// Remembers what was counted at earlier moments, where windows begin. The older moments are, the
// fewer remain: of age a they are a sixteenth of a apart at most, unless nobody called. So a window
// of any length, up to two days, is at most a sixteenth longer than was asked for, and a thousand
// readers a second are some 500 moments of some 10 KB. Thread-safe.
class StatusHistory {
 public:
  // How often to call Remember(), for the windows of those who look later.
  static constexpr std::chrono::seconds kPeriod{5};

  // Remembers this moment.
  void Remember(const MetricsSnapshot& now);

  // Remembers this moment, and returns its status. The window `last` begins at the moment
  // `since_seconds` after the start of the process, which an earlier look names.
  v1::ServerStatus Look(const MetricsSnapshot& now, std::optional<double> since_seconds);

  size_t size() const;  // in moments

 private:
  void Add(const Totals& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Totals& LastBy(double uptime_seconds) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  // By time; the first is the start of the process, or older than any window. Never empty.
  std::list<Totals> moments_ ABSL_GUARDED_BY(mutex_) = std::list<Totals>(1);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_STATUS_H_
