// Accepts connections and hands them on, for the gRPC port and the HTTP port. The accept loops of
// gRPC and of the HTTP library end for good when the system has no descriptor or memory for a
// connection; this one closes connections before that point, and continues beyond it.
#ifndef STOWAGE_SERVER_NET_LISTENER_H_
#define STOWAGE_SERVER_NET_LISTENER_H_

#include <chrono>
#include <climits>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/engine/limits/connection_accounts.h"
#include "server/events/observer.h"
#include "server/net/governed_connections.h"
#include "server/net/host_connections.h"
#include "server/net/peer.h"
#include "server/net/port_sharing.h"
#include "server/net/waiting_connections.h"
#include "solver/base/mutex.h"
#include "solver/base/time/rate_limit.h"

namespace stowage {

struct ListenerOptions {
  // A connection that gets a file descriptor of this number or above is closed at once: descriptors
  // are given out from the lowest, so that many are in use then.
  int max_descriptors = INT_MAX;
  // Connections of one host, as Peer::host names it, at a time; those beyond are closed at once. A
  // host may open as many within ten seconds, or kMinOpened where that is more. 0: no limit. Unix
  // sockets have none. SetHostConnections() changes it.
  int host_connections = 0;
  static constexpr int kMinOpened = 1000;
  // Whether an address (Peer::address) has no limits, those of ConnectionGovernor among them;
  // empty: all have them. Called by the listener's thread alone.
  std::function<bool(const std::string& address)> is_exempt = {};
  // What calls account for, the limits that are compared with it, and where streams are counted.
  // Null: no connection is cut off. It outlives the listener.
  ConnectionAccounts* accounts = nullptr;
  GovernedConnections::StreamsOf streams_of = {};
  ConnectionGovernor::Limits governor = {};
  // How long a new connection that may be a flood keeps others waiting; those that are governed are
  // handed on one at a time. The next one of a host waits for no longer than twenty such turns.
  std::chrono::milliseconds longest_turn{100};
  static constexpr int kMaxTurns = 20;
  ConnectionObserver* observer = nullptr;  // null: nobody learns of connections
  PortSharing sharing = PortSharing::kAlone;
};

// Accepts on a thread of its own from Start() until StopListening().
class Listener {
 public:
  // Takes over a connected socket, non-blocking; called by the listener's thread alone.
  using Accept = absl::AnyInvocable<void(int fd)>;

  // Listens on `address`: host:port, on every address that the host has, with port 0 for any free
  // one; [::]:port, on all addresses of the machine, of IPv4 as well, which alone will do; or
  // unix:PATH, replacing a socket file that no process listens on.
  // Errors: UNAVAILABLE with the reason and the remedy, as in "cannot listen on 127.0.0.1:50051:
  // Address already in use: stop the process that holds it, or choose another address".
  static absl::StatusOr<std::unique_ptr<Listener>> Start(const std::string& address,
                                                         ListenerOptions options, Accept accept);
  // As StopListening(), and cuts off no more connections.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Where it listens, with the port that was chosen.
  const std::string& address() const { return address_; }

  // Accepts the connections that wait, and returns when it listens no more: others reach a process
  // that shares the port, or are refused. Connections live on. Not from Accept.
  void StopListening();

  // As ListenerOptions::host_connections, for connections that are accepted from now on.
  void SetHostConnections(int most);

 private:
  Listener(ListenerOptions options, Accept accept);
  absl::Status ListenOnPath(const std::string& path);
  absl::Status ListenOnHost(const std::string& host, std::string* port);
  void Run();
  void Leave();
  bool AcceptAll(int listener);
  void Admit(NewConnection connection);
  // Closes it, or keeps it for a second: a host whose connections were closed at once would open
  // thousands a second.
  void Refuse(const NewConnection& connection, const std::string& reason);
  void HandOn(const NewConnection& connection);
  // Of the connections that wait, as many as have their turn.
  void HandOnWaiting();
  void HandOnNextWaiting();
  // Whether the next one need not wait any longer.
  bool IsItsTurn(std::chrono::steady_clock::time_point now);
  void CloseLate(std::chrono::steady_clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Cuts off connections that flood the server, until it is stopped.
  void Govern();
  bool IsBarred(const std::string& host, std::chrono::steady_clock::time_point now);
  // Counts it. False: its host has as many as it may.
  bool AddToHost(const Peer& peer, int fd, std::chrono::steady_clock::time_point now);

  // Whether the limits of hosts apply, and whether those of ConnectionGovernor do.
  bool IsLimited(const Peer& peer) const;
  bool IsGoverned(const Peer& peer) const;
  // Why a connection is not served, as RefusedConnection::reason; empty: it is.
  std::string RefusalOf(int fd, const Peer& peer);

  const ListenerOptions options_;
  RateLimit opened_;  // connections of each host
  struct Late {
    int fd;
    std::chrono::steady_clock::time_point due;
  };
  Mutex mutex_;
  HostConnections hosts_ ABSL_GUARDED_BY(mutex_);
  std::deque<Late> late_ ABSL_GUARDED_BY(mutex_);  // connections of barred hosts, to be closed
  std::optional<GovernedConnections> governed_ ABSL_GUARDED_BY(mutex_);
  WaitingConnections waiting_;  // governed ones that are to be handed on; the thread's
  // Of those, the descriptor of that which was handed on last, and when; the thread's.
  int last_ = -1;
  std::chrono::steady_clock::time_point last_handed_on_;
  Accept accept_;
  std::string address_;
  std::string path_;            // of a Unix socket, to be removed
  std::vector<int> listeners_;  // the thread's while it runs
  int leave_ = -1;              // readable: the thread ends
  int stop_governing_ = -1;     // readable: the governor ends
  std::thread thread_;
  std::thread governor_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_LISTENER_H_
