#include "server/engine/limits/delayed_refusals.h"

#include <utility>

namespace stowage {

// The timer is set under the lock, so that SendNow() finds its id. It holds the refusal, and is
// cancelled with it.
std::shared_ptr<DelayedRefusals::Refusal> DelayedRefusals::Delay(const std::string& client,
                                                                 Timers::Clock::time_point due,
                                                                 Send send) {
  std::shared_ptr<Refusal> refusal;
  {
    MutexLock lock(mutex_);
    const auto of_client = of_clients_.find(client);
    const size_t its = of_client != of_clients_.end() ? of_client->second : 0;
    if (waiting_ < limits_.of_all && its < limits_.of_a_client) {
      ++waiting_;
      ++of_clients_[client];
      refusal.reset(new Refusal(*this, client, std::move(send)));
      refusal->timer_ = timers_.At(due, [refusal] { refusal->SendNow(); });
      return refusal;
    }
  }
  send();
  return nullptr;
}

void DelayedRefusals::Refusal::SendNow() {
  Send send;
  Timers::Id timer;
  {
    MutexLock lock(all_.mutex_);
    send = std::exchange(send_, nullptr);
    if (send == nullptr) return;
    timer = timer_;
    --all_.waiting_;
    const auto of_client = all_.of_clients_.find(client_);
    if (--of_client->second == 0) all_.of_clients_.erase(of_client);
  }
  all_.timers_.Cancel(timer);
  send();
}

size_t DelayedRefusals::size() const {
  MutexLock lock(mutex_);
  return waiting_;
}

}  // namespace stowage
