// HTTP with one request and one response a connection. All connections share one thread, which slow
// clients do not block.
#ifndef STOWAGE_SERVER_NET_HTTP_EXCHANGES_H_
#define STOWAGE_SERVER_NET_HTTP_EXCHANGES_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "server/events/observer.h"
#include "server/net/stream.h"
#include "solver/base/mutex.h"

namespace stowage {

// A client has kPatience for the handshake and its whole request header, and as long again to read
// the response. Beyond the most connections the oldest one is closed, so that quick clients are
// always served. Thread-safe.
class Exchanges {
 public:
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr size_t kMaxRequestBytes = 16 << 10;

  // Returns the response to a request header; a body is not read. `peer` as PeerOf() has it. Called
  // by the one thread, so it must be quick.
  using Serve = absl::AnyInvocable<std::string(std::string request, const std::string& peer)>;

  // Takes over a connected socket; null: it could not, and has closed it. Called by the one thread.
  using Open = std::function<std::unique_ptr<Stream>(int fd)>;

  struct Options {
    size_t most = 1;              // connections
    Open open = MakePlainStream;  // makes a stream of each
  };
  // `observer` outlives this object and learns of connections that are closed for newer ones.
  Exchanges(Options options, ConnectionObserver& observer, Serve serve);
  // Closes all connections.
  ~Exchanges();
  Exchanges(const Exchanges&) = delete;
  Exchanges& operator=(const Exchanges&) = delete;

  // Takes over a connected socket.
  void Add(int fd);

 private:
  using Clock = std::chrono::steady_clock;
  struct Exchange {
    std::unique_ptr<Stream> stream;
    Clock::time_point deadline;
    std::string request = {};
    std::string answer = {};  // not empty: the request is whole
    size_t sent = 0;          // of the answer
  };

  void Run();
  void TakeAdded();
  // One read or write of an exchange whose socket is ready. False: close the connection.
  bool Advance(Exchange& exchange);
  bool Receive(Exchange& exchange);
  bool Send(Exchange& exchange);

  const Options options_;
  ConnectionObserver& observer_;
  Serve serve_;                    // used by the thread only
  std::list<Exchange> exchanges_;  // likewise until it has ended; the oldest first
  Mutex mutex_;
  std::vector<int> added_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  const int wake_;  // readable: something was added, or it stops
  std::thread thread_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_HTTP_EXCHANGES_H_
