// The limit on the open connections of one host.
#ifndef STOWAGE_SERVER_NET_HOST_CONNECTIONS_H_
#define STOWAGE_SERVER_NET_HOST_CONNECTIONS_H_

#include <sys/types.h>

#include <chrono>
#include <string>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace stowage {

// Counts the connections of each host without being told when one is closed, since gRPC owns and
// closes them. It knows a connection by the number of its descriptor and the inode of its socket:
// it is closed once another connection gets the number, or once the number belongs to no file or to
// another one. The second is looked up only where a host is at its limit. Thread-compatible.
class HostConnections {
 public:
  using Clock = std::chrono::steady_clock;
  // Between two searches among the connections of one host: a host at its limit that goes on
  // connecting must not occupy the thread. Within that time a place that is free again may be
  // refused, so a client tries again.
  static constexpr std::chrono::milliseconds kBetweenSearches{100};

  // `most`: of one host; 0: no limit.
  explicit HostConnections(int most) : most_(most) {}

  // For connections that are added from now on; those that were added while there was no limit do
  // not count.
  void SetMost(int most) { most_ = most; }

  // Counts the new connection `fd` of `host` until it is closed. False: the host has as many as it
  // may, and this one is not counted. O(1); O(most) once every kBetweenSearches.
  bool Add(const std::string& host, int fd, Clock::time_point now);

 private:
  struct Host {
    absl::flat_hash_set<int> fds;
    Clock::time_point next_search;
  };
  // Pointers to its elements stay valid.
  using Hosts = std::unordered_map<std::string, Host>;
  struct Socket {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const Socket&) const = default;
  };
  struct Connection {
    Socket socket;
    Hosts::pointer host;
  };

  // All 0 where the descriptor is closed.
  static Socket SocketOf(int fd);
  void DropClosed(Host& host);
  // Where the number was that of an earlier connection, which is closed then.
  void DropEarlier(int fd);

  int most_;
  Hosts hosts_;  // those with connections
  absl::flat_hash_map<int, Connection> connections_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_HOST_CONNECTIONS_H_
