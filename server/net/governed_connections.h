// The sockets behind ConnectionGovernor: reads their figures, and cuts them off.
#ifndef STOWAGE_SERVER_NET_GOVERNED_CONNECTIONS_H_
#define STOWAGE_SERVER_NET_GOVERNED_CONNECTIONS_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/limits/connection_accounts.h"
#include "server/events/observer.h"
#include "server/net/connection_governor.h"
#include "server/net/peer.h"

namespace stowage {

// Looks at connections that gRPC owns and closes: by the number of the descriptor, which belongs to
// another file once the inode differs. Thread-compatible.
class GovernedConnections {
 public:
  using Clock = ConnectionGovernor::Clock;

  // Of the streams of a connection (Peer::text) so far.
  using StreamsOf = std::function<StreamTotals(const std::string& peer)>;

  // Opens and closes accounts in `accounts`, which it borrows.
  GovernedConnections(const ConnectionGovernor::Limits& limits, ConnectionAccounts& accounts,
                      StreamsOf streams_of)
      : governor_(limits), accounts_(accounts), streams_of_(std::move(streams_of)) {}

  // A connected TCP socket, before anybody reads from it.
  void Add(int fd, const Peer& peer);

  bool Bars(const std::string& host, Clock::time_point now) { return governor_.Bars(host, now); }

  // Looks at every connection. Those that it cuts off fail at once in gRPC's hands; what they sent
  // and nobody has read is thrown away. O(connections): a microsecond each.
  std::vector<CutConnection> CutOffFlooders(Clock::time_point now);

  // Whether the connection `fd`, added `age` ago, has shown that it floods nobody by its start: a
  // call has begun on it, it has sent little within half a millisecond, or it is closed.
  bool HasStarted(int fd, Clock::duration age);

  // How long after a look at `now` the next is due.
  std::chrono::milliseconds Pause(Clock::time_point now) const;

 private:
  struct Connection {
    ino_t inode;
    std::string peer;
    std::shared_ptr<ConnectionAccount> account;
    ConnectionFigures figures = {};  // last
    int64_t read_bytes = 0;          // by gRPC
    // When its streams were counted, and what there was then.
    Clock::time_point counted = {};
    int64_t counted_bytes = 0;  // read
    int64_t counted_streams = 0;
    int64_t counted_arriving = 0;
    CallTotals counted_calls = {};
  };
  // False: the connection is closed.
  static bool Read(int fd, Connection& connection);
  // Whether its streams may be others than those that were counted.
  static bool IsToBeCounted(const Connection& connection, Clock::time_point now);
  static void CountStreams(const StreamTotals& streams, Connection& connection,
                           Clock::time_point now);
  // Of the connections that are to be counted, a few, in turn.
  void CountStreams(Clock::time_point now);

  ConnectionGovernor governor_;
  ConnectionAccounts& accounts_;
  const StreamsOf streams_of_;
  std::map<int, Connection> connections_;  // by descriptor
  int last_counted_ = -1;                  // descriptor of the connection
  Clock::time_point last_received_;        // when something was, by any
  double spent_seconds_ = 0;               // processor time of the last look
  bool is_flood_ = false;                  // many streams were no calls then
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_GOVERNED_CONNECTIONS_H_
