// The waiters of one solve, and who of them answers for the memory of their requests.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_WAITERS_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_WAITERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "server/cache/cache_keys.h"
#include "server/engine/solves/waiter.h"

namespace stowage {

// In the order in which they came. Not thread-safe: SharedSolve's lock guards it. What concerns one
// waiter takes O(log waiters).
class Waiters {
 public:
  // Of a solve of the request of `first`, who is still to be added.
  explicit Waiters(const Waiter& first);

  // Gives the waiter its id: 1, 2, and so on. It gives up its own copy of a request that is solved,
  // or that another one waits with; the copy is freed by the caller's last pointer to it.
  void Add(const WaiterPtr& waiter);
  // Null: it is not there.
  WaiterPtr Remove(uint64_t id);
  std::vector<WaiterPtr> RemoveIf(absl::FunctionRef<bool(const Waiter& waiter)> leaves);

  bool empty() const { return waiters_.empty(); }
  bool Has(uint64_t id) const { return waiters_.contains(id); }
  bool HasClient(const std::string& client) const { return clients_.contains(client); }
  std::vector<std::string> Clients() const;  // each once
  std::vector<WaiterPtr> All() const;
  // Who has waited longest; who left last where all have left.
  const Caller& owner() const { return owner_; }

 private:
  // The waiters with one exact request share it.
  struct ExactRequest {
    KeyedRequestPtr keyed;
    std::set<uint64_t> waiters;  // their ids
  };
  void Charge(const KeyedRequest& keyed);

  const KeyedRequestPtr solved_;
  std::map<uint64_t, WaiterPtr> waiters_;                    // by id
  std::map<std::string, size_t> clients_;                    // waiters of each, above 0
  absl::flat_hash_map<Fingerprint, ExactRequest> requests_;  // by CacheKeys::exact
  Caller owner_;
  uint64_t next_id_ = 1;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_WAITERS_H_
