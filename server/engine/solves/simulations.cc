#include "server/engine/solves/simulations.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "solver/base/time/timers.h"

namespace stowage {

bool Simulations::AddLate(const WaiterPtr& waiter) {
  const auto [entry, is_new] = clients_.try_emplace(waiter->caller.client);
  OfClient& client = entry->second;
  const Fingerprint& exact = waiter->keys().exact;
  std::vector<WaiterPtr>& waiters = client.late_waiters[exact];
  if (waiters.empty()) client.late.push_back(exact);
  waiters.push_back(waiter);
  return is_new;
}

std::vector<std::string> Simulations::Add(const std::vector<WaiterPtr>& waiters) {
  struct Due {
    std::string client = {};
    Timers::Clock::time_point at = Timers::Clock::time_point::max();
    std::vector<uint64_t> ids = {};
  };
  // Waiters with one exact request share it.
  std::map<std::pair<std::string, const KeyedRequest*>, Due> by_request;
  for (const WaiterPtr& waiter : waiters) {
    Due& due = by_request[{waiter->caller.client, waiter->keyed.get()}];
    due.client = waiter->caller.client;
    due.at = std::min(due.at, waiter->due);
    due.ids.push_back(waiter->id);
  }
  std::vector<Due> sorted;
  sorted.reserve(by_request.size());
  for (auto& [key, due] : by_request) sorted.push_back(std::move(due));
  absl::c_sort(sorted, [](const Due& a, const Due& b) {
    return std::pair(a.at, a.ids.front()) < std::pair(b.at, b.ids.front());
  });
  std::vector<std::string> clients;
  for (Due& due : sorted) {
    const auto [entry, is_new] = clients_.try_emplace(due.client);
    if (is_new) clients.push_back(due.client);
    entry->second.others.push_back(std::move(due.ids));
  }
  return clients;
}

// Skips exact requests whose waiters have all left. Where nobody is left the entry is erased, so
// that whoever waits next is told to add the client's work.
bool Simulations::Has(const std::string& client, const Waiters& waiters) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return false;
  OfClient& entry = found->second;
  const auto waits = [&waiters](uint64_t id) { return waiters.Has(id); };
  while (!entry.others.empty() && absl::c_none_of(entry.others.front(), waits)) {
    entry.others.pop_front();
  }
  if (!entry.late.empty() || !entry.others.empty()) return true;
  clients_.erase(found);
  return false;
}

std::optional<Simulations::Group> Simulations::Next(const std::string& client,
                                                    const Waiters& waiters) {
  if (!Has(client, waiters)) return std::nullopt;
  OfClient& entry = clients_.at(client);
  Group next;
  if (!entry.late.empty()) {
    const auto late = entry.late_waiters.find(entry.late.front());
    next.late = std::move(late->second);
    entry.late_waiters.erase(late);
    entry.late.pop_front();
  } else {
    next.others = std::move(entry.others.front());
    entry.others.pop_front();
  }
  return next;
}

}  // namespace stowage
