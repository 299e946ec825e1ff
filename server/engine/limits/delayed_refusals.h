// Refusals that are sent late, so that a client that calls again and again, whatever it is
// answered, does not take the processor from the others.
#ifndef STOWAGE_SERVER_ENGINE_LIMITS_DELAYED_REFUSALS_H_
#define STOWAGE_SERVER_ENGINE_LIMITS_DELAYED_REFUSALS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "solver/base/mutex.h"
#include "solver/base/time/timers.h"

namespace stowage {

// Holds the refusals until they are due, few enough of a client that it cannot use up the room for
// all. Thread-safe.
class DelayedRefusals {
 public:
  struct Limits {
    size_t of_all = 10'000;     // each holds the memory of a call
    size_t of_a_client = 1000;  // as many as one connection has streams
  };
  using Send = absl::AnyInvocable<void()>;

  // One refusal. Thread-safe. Does not outlive DelayedRefusals.
  class Refusal {
   public:
    // Sends it, unless it has been sent: its caller has left, say.
    void SendNow();

   private:
    friend class DelayedRefusals;
    Refusal(DelayedRefusals& all, std::string client, Send send)
        : all_(all), client_(std::move(client)), send_(std::move(send)) {}

    DelayedRefusals& all_;
    const std::string client_;
    Send send_;         // guarded by all_.mutex_; empty: it was sent
    Timers::Id timer_;  // guarded by all_.mutex_
  };

  // Borrows the timers.
  DelayedRefusals(Timers& timers, const Limits& limits) : timers_(timers), limits_(limits) {}

  // Calls `send` once, at `due` or by SendNow(); beyond a limit at once, and then returns null.
  std::shared_ptr<Refusal> Delay(const std::string& client, Timers::Clock::time_point due,
                                 Send send);

  // Of all clients, that wait.
  size_t size() const;

 private:
  Timers& timers_;
  const Limits limits_;
  mutable Mutex mutex_;
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, size_t> of_clients_ ABSL_GUARDED_BY(mutex_);  // above 0
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_LIMITS_DELAYED_REFUSALS_H_
