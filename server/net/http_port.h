// The HTTP port for operators: /metrics, /livez, /readyz. The only user of the HTTP library here.
#ifndef STOWAGE_SERVER_NET_HTTP_PORT_H_
#define STOWAGE_SERVER_NET_HTTP_PORT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/observe/observer.h"

namespace stowage {

// Serves from Start() until it is destroyed, on threads of its own. At most kMostHttpConnections
// connections are open at a time; beyond them the oldest is closed. Thread-safe.
class HttpPort {
 public:
  // What the pages show; both are called from the port's thread and must be quick.
  struct Sources {
    std::function<std::string()> metrics;  // in Prometheus' text format
    std::function<bool()> ready;           // whether /readyz answers 200 or 503
  };
  // `address` is host:port, with port 0 for any free one; `observer` outlives the port. Errors:
  // UNAVAILABLE with the address and the remedy, as in "--http: cannot listen on 127.0.0.1:50052:
  // Address already in use: ...".
  static absl::StatusOr<std::unique_ptr<HttpPort>> Start(const std::string& address,
                                                         ConnectionObserver& observer,
                                                         Sources sources);
  ~HttpPort();

  // Where it listens, with the port that was chosen.
  const std::string& address() const;

 private:
  struct Parts;
  explicit HttpPort(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_HTTP_PORT_H_
