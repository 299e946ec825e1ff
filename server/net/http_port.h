// The HTTP port: one answer a route to GET, for those whom the route admits. The only user of the
// HTTP library here.
#ifndef STOWAGE_SERVER_NET_HTTP_PORT_H_
#define STOWAGE_SERVER_NET_HTTP_PORT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/events/observer.h"
#include "server/net/port_sharing.h"

struct ssl_ctx_st;

namespace stowage {

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain";  // of the body
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // beside those of every response
};

struct HttpRoute {
  // Who may read it.
  enum class Access {
    kOpen,     // everybody
    kReaders,  // whom Protection admits
  };
  // The parameters after the "?", decoded.
  using Query = std::multimap<std::string, std::string>;

  std::string path;  // "/metrics"
  Access access = Access::kReaders;
  // Called from the port's thread; must be quick.
  std::function<HttpResponse(const Query& query)> answer;
};

// Serves from Start() until it is destroyed, on threads of its own. At most kMaxHttpConnections
// connections are open at a time; beyond them the oldest is closed. Thread-safe.
class HttpPort {
 public:
  // How connections and readers are told from others. Called from the port's thread.
  struct Protection {
    // Each connection speaks TLS with what this returns then, OpenSSL's SSL_CTX; empty: none does.
    std::function<std::shared_ptr<ssl_ctx_st>()> tls = {};
    // Gets the library's message and the peer, without a reason; empty only where `tls` is.
    std::function<void(FailedHandshake handshake)> handshake_failed = {};
    // Whether the value of a request's header "authorization" admits it. Errors: the response has
    // their text and the status 401. Empty: no header is needed.
    std::function<absl::Status(absl::string_view authorization)> authenticate = {};
    // The same of the header "host", with the status 403. Empty: any host will do.
    std::function<absl::Status(absl::string_view host)> check_host = {};
  };
  // `address` is host:port, with port 0 for any free one; `observer` outlives the port. Errors:
  // UNAVAILABLE with the address and the remedy, as in "--http: cannot listen on 127.0.0.1:50052:
  // Address already in use: ...".
  static absl::StatusOr<std::unique_ptr<HttpPort>> Start(const std::string& address,
                                                         ConnectionObserver& observer,
                                                         const std::vector<HttpRoute>& routes,
                                                         Protection protection,
                                                         PortSharing sharing);
  ~HttpPort();

  // As Listener::StopListening(): open connections are served.
  void StopListening();

  // Where it listens, with the port that was chosen.
  const std::string& address() const;

 private:
  struct Parts;
  explicit HttpPort(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_HTTP_PORT_H_
