// Finds connections that make the server work for nothing: floods below the calls, which gRPC
// neither limits nor reports.
#ifndef STOWAGE_SERVER_NET_CONNECTION_GOVERNOR_H_
#define STOWAGE_SERVER_NET_CONNECTION_GOVERNOR_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/engine/limits/connection_accounts.h"

namespace stowage {

// What is known of one connection at a time: of its socket and of its calls, since it began.
struct ConnectionFigures {
  int64_t received_bytes = 0;  // by the system, TLS included
  int64_t sent_bytes = 0;
  int64_t streams = 0;   // that the client began, calls or not
  int64_t arriving = 0;  // of those, that hold memory and are no calls
  CallTotals calls;      // as they were before the others were looked at
};

// Compares what a connection received and sent with what its calls account for. Nothing is parsed,
// so TLS makes no difference. Pure: figures and times are the caller's. Thread-compatible.
class ConnectionGovernor {
 public:
  using Clock = std::chrono::steady_clock;

  // Each is above what a client that uses HTTP/2 as it is meant can reach.
  struct Limits {
    // Received without any byte sent in between: twice the window of a connection, which the server
    // opens again as it reads messages (rpc/callers/connection_limits.h), and the window of each
    // stream that is no call yet: a busy server has read the requests on them, and begun none.
    int64_t silent_bytes = 2 << 20;
    int64_t stream_bytes = 1 << 20;
    // Received beyond what calls account for, on all connections together: requests that are on
    // their way, for which gRPC has as much memory. Beyond it the largest are cut off.
    int64_t all_bytes = int64_t{256} << 20;
    // Sent beyond answers: the answers to PING and SETTINGS frames.
    int64_t sent_bytes = 256 << 10;
    // Streams that are no calls yet, and calls that hold memory; HTTP/2 lets a connection have
    // kMaxOpenStreams, but those that were reset no longer count among them. Of the streams a
    // connection may have first_streams, and one more for each call that has begun.
    int64_t first_streams = 200;
    int64_t streams = 1200;
    int64_t calls = 2000;
    // Streams that are no calls, of all connections together, but for two of each: those that hold
    // memory, or those that were begun lately where these are more. gRPC takes 20 KB for one and
    // 0.1 ms to end it, and all may end at once. Beyond it the hosts with the most are cut off.
    int64_t all_streams = 2000;
    // Calls that their caller abandoned, beyond those that were answered and those forgiven.
    int64_t abandoned = 3000;
  };

  explicit ConnectionGovernor(const Limits& limits) : limits_(limits) {}

  // A new connection; `id` names no other one that has not been removed.
  void Add(int id, const std::string& host);
  void Remove(int id);
  // Requires: it was added, the figures are not less than at the last time.
  void Update(int id, const ConnectionFigures& figures, Clock::time_point now);

  struct Verdict {
    int id;
    const char* reason;  // one of those of CutConnection
  };
  // The connections to be cut off. They are removed, and their hosts are barred; for the other
  // connections of a barred host a quarter of the limits is enough.
  std::vector<Verdict> Judge(Clock::time_point now);

  // Whether new connections of the host are refused: for a minute after one was cut off, for twice
  // as long after each further one, for 10 minutes at most. It is forgotten after 10 minutes more.
  bool Bars(const std::string& host, Clock::time_point now);

 private:
  struct Connection {
    std::string host;
    ConnectionFigures last;
    Clock::time_point updated;
    // Levels of leaky buckets: they rise by what is not accounted for, and sink with time.
    double unexplained = 0;  // bytes received
    double answered = 0;     // bytes sent beyond answers
    double abandoned = 0;    // calls
    double unsent = 0;       // bytes of answers that are still to be sent
    int64_t answered_calls = 0;
    double waiting = 0;  // streams that are no calls
    double silent = 0;   // bytes received since the last one was sent; does not sink with time
  };
  struct Barred {
    int times = 0;
    Clock::time_point until;
  };

  // Why it is to be cut off; null: it is not. `share`: of the limits, which apply.
  const char* ReasonAgainst(const Connection& connection, double share) const;
  void CutOff(int id, const char* reason, Clock::time_point now, std::vector<Verdict>* verdicts);
  // Cuts off those with the most unexplained bytes until the sum of all is within the limit.
  void Reduce(Clock::time_point now, std::vector<Verdict>* verdicts);
  // Cuts off the connections with streams that are no calls, of the hosts that have the most,
  // likewise.
  void ReduceStreams(Clock::time_point now, std::vector<Verdict>* verdicts);
  static double StreamsBeyondFew(const Connection& connection);
  void Bar(const std::string& host, Clock::time_point now);

  const Limits limits_;
  std::map<int, Connection> connections_;
  absl::flat_hash_map<std::string, Barred> barred_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_CONNECTION_GOVERNOR_H_
