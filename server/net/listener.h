// The server's doors: accepts connections and hands them on. gRPC's own and that of the HTTP
// library stop for ever at the first connection that the system has nothing left for; this one
// refuses connections before that, and goes on.
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

class Listener {
 public:
  // Takes over a connected socket, non-blocking; called by the listener's thread alone.
  using Accept = absl::AnyInvocable<void(int fd)>;

  // Listens on `address`: host:port, on every address that the host has, with port 0 for any free
  // one; or unix:PATH, in the place of a socket that nobody listens on any more. A connection that
  // gets a file descriptor of `most_descriptors` or above is closed at once: descriptors are given
  // out from the lowest, so that many are in use then.
  // Errors: UNAVAILABLE with the reason and the remedy.
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
  std::vector<int> listeners_;  // as is once the thread runs
  int wake_ = -1;               // readable: stop
  std::thread thread_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_LISTENER_H_
