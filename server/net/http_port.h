// The HTTP port for operators: /metrics, /livez, /readyz. The only user of the HTTP library here.
#ifndef STOWAGE_SERVER_NET_HTTP_PORT_H_
#define STOWAGE_SERVER_NET_HTTP_PORT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace stowage {

// Serves from Start() until it is destroyed, on threads of its own.
class HttpPort {
 public:
  struct Sources {
    std::function<std::string()> metrics;  // called from any thread, as is
    std::function<bool()> ready;
  };
  // `address` is host:port, with port 0 for any free one. Errors: UNAVAILABLE, with the address.
  static absl::StatusOr<std::unique_ptr<HttpPort>> Start(const std::string& address,
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
