#include "solver/base/time/timers.h"

namespace stowage {

Timers::Timers() : thread_([this] { Run(); }) {}

Timers::~Timers() { Stop(); }

void Timers::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

Timers::Id Timers::At(Clock::time_point due, Call call) {
  MutexLock lock(mutex_);
  const Id id(due, next_++);
  // The thread sleeps until the earliest deadline, so only a new earliest one has to wake it.
  const bool first = calls_.empty() || id < calls_.begin()->first;
  calls_.emplace(id, std::move(call));
  if (first) changed_.SignalAll();
  return id;
}

void Timers::Cancel(const Id& id) {
  Call dropped;  // destroyed after the lock is released: what it captures may have a destructor
  MutexLock lock(mutex_);
  const auto call = calls_.find(id);
  if (call == calls_.end()) return;
  dropped = std::move(call->second);
  calls_.erase(call);
}

// Waits for the earliest deadline, removes its callback under the lock and runs it without, so that
// a callback may add and cancel others.
void Timers::Run() {
  while (true) {
    Call call;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && (calls_.empty() || calls_.begin()->first.first > Clock::now())) {
        if (calls_.empty()) {
          changed_.Wait(mutex_);
        } else {
          changed_.WaitUntil(mutex_, calls_.begin()->first.first);
        }
      }
      if (stopping_) return;
      call = std::move(calls_.begin()->second);
      calls_.erase(calls_.begin());
    }
    call();
  }
}

}  // namespace stowage
