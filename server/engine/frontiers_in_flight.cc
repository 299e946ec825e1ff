#include "server/engine/frontiers_in_flight.h"

#include <utility>

#include "absl/status/status.h"
#include "solver/base/time/clock.h"

namespace stowage {

FrontierCall::FrontierCall(FrontierInFlight description, std::stop_token caller, Done done)
    : description_(std::move(description)),
      stop_(std::move(caller), cancelled_.get_token()),
      done_(std::move(done)) {}

void FrontierCall::Started() {
  MutexLock lock(mutex_);
  started_ = Clock::now();
}

// Whoever takes `done_` calls it, without the lock.
void FrontierCall::End(absl::StatusOr<FrontierResult> result) {
  Done done;
  {
    MutexLock lock(mutex_);
    done = std::exchange(done_, nullptr);
  }
  if (done != nullptr) done(std::move(result));
}

bool FrontierCall::Cancel() {
  Done done;
  {
    MutexLock lock(mutex_);
    done = std::exchange(done_, nullptr);
  }
  if (done == nullptr) return false;
  cancelled_.request_stop();
  done(absl::AbortedError("an operator of the server stopped this frontier"));
  return true;
}

FrontierInFlight FrontierCall::Describe(Clock::time_point now) const {
  FrontierInFlight described = description_;
  MutexLock lock(mutex_);
  const Clock::time_point started = started_.value_or(now);
  described.waiting_seconds = SecondsBetween(arrived_, started);
  described.running_seconds = SecondsBetween(started, now);
  described.fraction = fraction_.load(std::memory_order_relaxed);
  return described;
}

void FrontiersInFlight::Add(const FrontierCallPtr& call) {
  MutexLock lock(mutex_);
  calls_.insert(call);
}

void FrontiersInFlight::Remove(const FrontierCallPtr& call) {
  MutexLock lock(mutex_);
  calls_.erase(call);
}

std::vector<FrontierCallPtr> FrontiersInFlight::Calls() const {
  MutexLock lock(mutex_);
  return {calls_.begin(), calls_.end()};
}

std::vector<FrontierInFlight> FrontiersInFlight::List() const {
  const FrontierCall::Clock::time_point now = FrontierCall::Clock::now();
  std::vector<FrontierInFlight> list;
  for (const FrontierCallPtr& call : Calls()) list.push_back(call->Describe(now));
  return list;
}

int64_t FrontiersInFlight::Cancel(const std::string& fingerprint) {
  int64_t cancelled = 0;
  for (const FrontierCallPtr& call : Calls()) {
    if (call->Describe(FrontierCall::Clock::now()).fingerprint != fingerprint) continue;
    Remove(call);
    if (call->Cancel()) ++cancelled;
  }
  return cancelled;
}

}  // namespace stowage
