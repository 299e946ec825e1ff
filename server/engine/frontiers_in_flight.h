// The frontiers that wait or run, for operators: to list them, and to stop one.
#ifndef STOWAGE_SERVER_ENGINE_FRONTIERS_IN_FLIGHT_H_
#define STOWAGE_SERVER_ENGINE_FRONTIERS_IN_FLIGHT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "proto/service/results.h"
#include "solver/base/mutex.h"
#include "solver/base/time/stop.h"
#include "solver/model/answer.h"

namespace stowage {

struct FrontierInFlight {
  std::string fingerprint = {};  // by which it is stopped; empty: it cannot be
  std::string solver = {};       // requested
  int stages = 0;                // of the chain
  int64_t memory_bytes = 0;      // the largest budget
  std::string client = {};
  double waiting_seconds = 0;  // until now, or until it began
  double running_seconds = 0;  // 0: it has not begun
  double fraction = 0;         // done, 0..1, as last reported
};

// One frontier and its caller. Thread-safe.
class FrontierCall {
 public:
  using Clock = std::chrono::steady_clock;
  using Done = absl::AnyInvocable<void(absl::StatusOr<FrontierResult>)>;

  // `description` without times and progress. `caller` is set when the caller has left.
  FrontierCall(FrontierInFlight description, std::stop_token caller, Done done);

  // Set when the caller has left, or when it was stopped.
  std::stop_token stop() const { return stop_.token(); }
  void Started();
  void Progressed(double fraction) { fraction_.store(fraction, std::memory_order_relaxed); }
  // Calls `done` unless it has been called.
  void End(absl::StatusOr<FrontierResult> result);
  // Ends it with ABORTED and sets the stop token; false: it has ended already.
  bool Cancel();

  FrontierInFlight Describe(Clock::time_point now) const;

 private:
  const FrontierInFlight description_;
  const Clock::time_point arrived_ = Clock::now();
  std::stop_source cancelled_;
  EitherStop stop_;
  mutable Mutex mutex_;
  Done done_ ABSL_GUARDED_BY(mutex_);  // empty: it was called
  std::optional<Clock::time_point> started_ ABSL_GUARDED_BY(mutex_);
  std::atomic<double> fraction_ = 0;
};
using FrontierCallPtr = std::shared_ptr<FrontierCall>;

// Thread-safe.
class FrontiersInFlight {
 public:
  void Add(const FrontierCallPtr& call);
  void Remove(const FrontierCallPtr& call);

  std::vector<FrontierInFlight> List() const;
  // Stops those with that fingerprint, and returns how many.
  int64_t Cancel(const std::string& fingerprint);

 private:
  std::vector<FrontierCallPtr> Calls() const;

  mutable Mutex mutex_;
  std::set<FrontierCallPtr> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_FRONTIERS_IN_FLIGHT_H_
