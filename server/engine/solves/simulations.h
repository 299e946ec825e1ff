// What is to be simulated for waiters whose chain was not the solved one: one work of each client
// serves its waiters, one exact request after the other.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_SIMULATIONS_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_SIMULATIONS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/cache/cache_keys.h"
#include "server/engine/solves/waiter.h"
#include "server/engine/solves/waiters.h"

namespace stowage {

// Waiters are late, with their time up and removed from their solve, or still wait there for its
// answer, and may leave before their turn. Not thread-safe: SharedSolve's lock guards it.
class Simulations {
 public:
  // Takes a late waiter. True: the caller is to add its client's work to the queue.
  bool AddLate(const WaiterPtr& waiter);
  // Takes all who wait for the answer, in the order of their ids. Whoever is due first comes first:
  // above all those whose time was up before there was a schedule. Returns the clients whose work
  // the caller is to add.
  std::vector<std::string> Add(const std::vector<WaiterPtr>& waiters);

  // Whom the client's work serves next: late waiters with one exact request, or else others, by
  // their ids. One of them is empty.
  struct Group {
    std::vector<WaiterPtr> late = {};
    std::vector<uint64_t> others = {};
  };
  // Removes and returns the next; `waiters` are those of the solve, without whoever has left.
  // nullopt: nobody is left, and the client's work ends.
  std::optional<Group> Next(const std::string& client, const Waiters& waiters);
  // Whether the work is to be added again; false: nobody is left, and it ends.
  bool Has(const std::string& client, const Waiters& waiters);

 private:
  // An exact request comes once in each queue.
  struct OfClient {
    std::deque<Fingerprint> late;  // by CacheKeys::exact, the first whose time was up first
    absl::flat_hash_map<Fingerprint, std::vector<WaiterPtr>> late_waiters;
    std::deque<std::vector<uint64_t>> others;  // ids
  };

  // An entry is there as long as the client's work is in the queue or runs.
  std::map<std::string, OfClient> clients_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_SIMULATIONS_H_
