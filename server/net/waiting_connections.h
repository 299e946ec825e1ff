// Accepted connections that wait to be handed on.
#ifndef STOWAGE_SERVER_NET_WAITING_CONNECTIONS_H_
#define STOWAGE_SERVER_NET_WAITING_CONNECTIONS_H_

#include <chrono>
#include <deque>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "server/net/peer.h"

namespace stowage {

struct NewConnection {
  int fd = -1;
  Peer peer;
  std::chrono::steady_clock::time_point accepted = {};
};

// Hosts take turns, so that one with many connections delays others by one at a time; those of a
// host keep their order. Owns no descriptor. Thread-compatible.
class WaitingConnections {
 public:
  void Add(NewConnection connection);
  // The next one. Requires: it is not empty. O(1).
  const NewConnection& Next() const;
  NewConnection Take();
  bool empty() const { return hosts_.empty(); }

 private:
  std::deque<std::string> hosts_;  // those with connections, the next one first
  absl::flat_hash_map<std::string, std::deque<NewConnection>> connections_;  // none is empty
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_WAITING_CONNECTIONS_H_
