// Accepts connections and hands them on, for the gRPC port and the HTTP port. The accept loops of
// gRPC and of the HTTP library end for good when the system has no descriptor or memory for a
// connection; this one closes connections before that point, and continues beyond it.
#ifndef STOWAGE_SERVER_NET_LISTENER_H_
#define STOWAGE_SERVER_NET_LISTENER_H_

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

namespace stowage {

// Accepts on a thread of its own from Start() until it is destroyed.
class Listener {
 public:
  // Takes over a connected socket, non-blocking; called by the listener's thread alone.
  using Accept = absl::AnyInvocable<void(int fd)>;

  // Listens on `address`: host:port, on every address that the host has, with port 0 for any free
  // one; or unix:PATH, replacing a socket file that no process listens on. A connection that
  // gets a file descriptor of `most_descriptors` or above is closed at once: descriptors are given
  // out from the lowest, so that many are in use then.
  // Errors: UNAVAILABLE with the reason and the remedy, as in "cannot listen on 127.0.0.1:50051:
  // Address already in use: stop the process that holds it, or choose another address".
  static absl::StatusOr<std::unique_ptr<Listener>> Start(const std::string& address,
                                                         int most_descriptors, Accept accept);
  // Stops listening; connections live on.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Where it listens, with the port that was chosen.
  const std::string& address() const { return address_; }

 private:
  Listener(int most_descriptors, Accept accept);
  absl::Status ListenOnPath(const std::string& path);
  absl::Status ListenOnHost(const std::string& host, std::string* port);
  void Run();
  void AcceptAll(int listener);

  const int most_descriptors_;
  Accept accept_;
  std::string address_;
  std::string path_;            // of a Unix socket, to be removed
  std::vector<int> listeners_;  // unchanged once the thread runs
  int wake_ = -1;               // readable: stop
  std::thread thread_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_LISTENER_H_
