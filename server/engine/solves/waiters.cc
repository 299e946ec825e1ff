#include "server/engine/solves/waiters.h"

#include <utility>

namespace stowage {

// The request may have been that of others, who have left.
Waiters::Waiters(const Waiter& first) : solved_(first.keyed), owner_(first.caller) {
  solved_->held.ChargeTo(owner_.client);
}

void Waiters::Add(const WaiterPtr& waiter) {
  waiter->id = next_id_++;
  const Fingerprint& exact = waiter->keys().exact;
  ExactRequest& request = requests_[exact];
  if (request.waiters.empty()) {
    request.keyed = exact == solved_->keys.exact ? solved_ : waiter->keyed;
  }
  request.waiters.insert(waiter->id);
  waiter->keyed = request.keyed;
  ++clients_[waiter->caller.client];
  waiters_.emplace(waiter->id, waiter);
}

// Where the owner leaves, whoever has waited longest next owns the solve.
WaiterPtr Waiters::Remove(uint64_t id) {
  const auto found = waiters_.find(id);
  if (found == waiters_.end()) return nullptr;
  WaiterPtr waiter = std::move(found->second);
  waiters_.erase(found);
  const auto request = requests_.find(waiter->keys().exact);
  request->second.waiters.erase(id);
  if (request->second.waiters.empty()) requests_.erase(request);
  const auto client = clients_.find(waiter->caller.client);
  if (--client->second == 0) clients_.erase(client);
  if (!waiters_.empty()) {
    owner_ = waiters_.begin()->second->caller;
    Charge(*waiter->keyed);
    Charge(*solved_);
  }
  return waiter;
}

std::vector<WaiterPtr> Waiters::RemoveIf(absl::FunctionRef<bool(const Waiter& waiter)> leaves) {
  std::vector<WaiterPtr> removed;
  for (auto next = waiters_.begin(); next != waiters_.end();) {
    const auto each = next++;
    if (leaves(*each->second)) removed.push_back(Remove(each->first));
  }
  return removed;
}

std::vector<std::string> Waiters::Clients() const {
  std::vector<std::string> clients;
  clients.reserve(clients_.size());
  for (const auto& [client, waiters] : clients_) clients.push_back(client);
  return clients;
}

std::vector<WaiterPtr> Waiters::All() const {
  std::vector<WaiterPtr> all;
  all.reserve(waiters_.size());
  for (const auto& [id, waiter] : waiters_) all.push_back(waiter);
  return all;
}

// The memory of a request is on the account of whoever has waited longest of those with the
// request; that of the solved one is on the owner's once these have left.
void Waiters::Charge(const KeyedRequest& keyed) {
  const auto request = requests_.find(keyed.keys.exact);
  if (request != requests_.end()) {
    const uint64_t first = *request->second.waiters.begin();
    keyed.held.ChargeTo(waiters_.at(first)->caller.client);
  } else if (&keyed == solved_.get()) {
    keyed.held.ChargeTo(owner_.client);
  }
}

}  // namespace stowage
