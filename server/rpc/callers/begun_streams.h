// How many streams clients have begun on their connections, calls or not, and how many have ended.
#ifndef STOWAGE_SERVER_RPC_CALLERS_BEGUN_STREAMS_H_
#define STOWAGE_SERVER_RPC_CALLERS_BEGUN_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "server/engine/limits/connection_accounts.h"

namespace stowage {

// Asks gRPC's channelz, whose counts are up to date while the calls themselves wait behind others.
// Of the process's only server. Thread-compatible.
class BegunStreams {
 public:
  // `peer`: as PeerText() has it. 0: gRPC does not know the connection yet. 25 microseconds.
  StreamTotals Of(const std::string& peer);

 private:
  // Learns the ids of connections that are new, or of all where many have been closed.
  void FindSockets();

  int64_t server_ = 0;  // its id; 0: not known yet
  int64_t next_socket_ = 0;
  absl::flat_hash_map<std::string, int64_t> sockets_;  // ids, by peer; some are closed
  size_t max_sockets_ = 1024;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLERS_BEGUN_STREAMS_H_
