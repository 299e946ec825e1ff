#include "server/net/http_port.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "server/net/descriptors.h"
#include "server/net/http_exchanges.h"
#include "server/net/listener.h"
#include "server/net/peer.h"
#include "server/net/tls_stream.h"

namespace stowage {
namespace {

// A connection in memory: the library reads the request from it and writes the response to it.
class MemoryStream final : public httplib::Stream {
 public:
  MemoryStream(std::string request, std::string peer)
      : request_(std::move(request)), peer_(std::move(peer)) {}
  const std::string& answer() const { return answer_; }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override {
    size = std::min(size, request_.size() - read_);
    std::memcpy(to, request_.data() + read_, size);
    read_ += size;
    return static_cast<ssize_t>(size);
  }
  ssize_t write(const char* from, size_t size) override {
    answer_.append(from, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& ip, int& /*port*/) const override { ip = peer_; }
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

 private:
  const std::string request_;
  const std::string peer_;
  size_t read_ = 0;
  std::string answer_;
};

// The library only parses requests and writes responses; Listener and Exchanges do the rest. Its
// own threads would be held up by clients that send slowly, and its accept loop ends for good when
// the system has no descriptor left for a connection.
class Pages final : public httplib::Server {
 public:
  // Requests have the peer as their `remote_addr`.
  std::string Answer(std::string request, const std::string& peer) {
    MemoryStream stream(std::move(request), peer);
    bool closed = false;
    process_request(stream, /*close_connection=*/true, closed, AcceptGzipAlone);
    return stream.answer();
  }

 private:
  // The library would prefer Brotli, at a level that takes this thread half a second for a page.
  static void AcceptGzipAlone(httplib::Request& request) {
    const bool accepts_gzip =
        absl::StrContains(request.get_header_value("Accept-Encoding"), "gzip");
    request.headers.erase("Accept-Encoding");
    if (accepts_gzip) request.set_header("Accept-Encoding", "gzip");
  }
};

// The library would answer 400, as to a request that it cannot read.
httplib::Server::HandlerResponse RefuseOtherMethods(const httplib::Request& request,
                                                    httplib::Response& response) {
  if (request.method == "GET" || request.method == "HEAD") {
    return httplib::Server::HandlerResponse::Unhandled;
  }
  response.status = 405;
  response.set_header("Allow", "GET, HEAD");
  response.set_content("this port answers GET and HEAD; calls that solve are gRPC's\n",
                       "text/plain");
  return httplib::Server::HandlerResponse::Handled;
}

// One Range header could list the whole page thousands of times, and the library would build such
// a response in memory.
bool HasRangeHeader(const std::string& request) {
  return absl::StrContains(absl::AsciiStrToLower(request), "\nrange:");
}

constexpr const char* kRangeRefused =
    "HTTP/1.1 416 Range Not Satisfiable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

// Makes streams of new connections. `protection` outlives the function.
Exchanges::Open OpenWith(const HttpPort::Protection& protection) {
  if (!protection.tls) return MakePlainStream;
  return [&protection](int fd) {
    return MakeTlsStream(fd, protection.tls().get(),
                         [&protection, peer = PeerOf(fd).text](const std::string& message) {
                           protection.handshake_failed({.message = message, .peer = peer});
                         });
  };
}

}  // namespace

struct HttpPort::Parts {
  Parts(ConnectionObserver& its_observer, const std::vector<HttpRoute>& routes,
        HttpPort::Protection its_protection)
      : observer(its_observer),
        protection(std::move(its_protection)),
        exchanges({.most = kMaxHttpConnections, .open = OpenWith(protection)}, its_observer,
                  [this](std::string request, const std::string& peer) {
                    return HasRangeHeader(request) ? kRangeRefused
                                                   : pages.Answer(std::move(request), peer);
                  }) {
    pages.set_pre_routing_handler(RefuseOtherMethods);
    for (const HttpRoute& route : routes) {
      pages.Get(route.path,
                [this, route](const httplib::Request& request, httplib::Response& response) {
                  const bool is_open = route.access == HttpRoute::Access::kOpen;
                  if (!is_open && !IsAdmitted(request, response)) return;
                  const HttpResponse answer = route.answer(request.params);
                  response.status = answer.status;
                  for (const auto& [name, value] : answer.headers) response.set_header(name, value);
                  response.set_content(answer.body, answer.type);
                });
    }
  }

  // Otherwise the response says why not.
  bool IsAdmitted(const httplib::Request& request, httplib::Response& response) {
    const auto passes = [&](const std::function<absl::Status(absl::string_view)>& check,
                            const char* header, int refusal) {
      const absl::Status status =
          check ? check(request.get_header_value(header)) : absl::OkStatus();
      if (status.ok()) return true;
      observer.ReaderRefused({std::string(status.message()), request.remote_addr});
      response.status = refusal;
      response.set_content(absl::StrCat(status.message(), "\n"), "text/plain");
      return false;
    };
    if (!passes(protection.check_host, "Host", 403)) return false;
    if (passes(protection.authenticate, "Authorization", 401)) return true;
    response.set_header("WWW-Authenticate", "Bearer");
    return false;
  }

  ConnectionObserver& observer;
  const HttpPort::Protection protection;
  Pages pages;
  Exchanges exchanges;
  std::unique_ptr<Listener> listener;  // last: hands connections to all of the above
};

HttpPort::HttpPort(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

HttpPort::~HttpPort() = default;

void HttpPort::StopListening() { parts_->listener->StopListening(); }

const std::string& HttpPort::address() const { return parts_->listener->address(); }

// The listener accepts without a limit on descriptors: Exchanges bounds the connections itself.
absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Start(const std::string& address,
                                                          ConnectionObserver& observer,
                                                          const std::vector<HttpRoute>& routes,
                                                          Protection protection,
                                                          PortSharing sharing) {
  auto parts = std::make_unique<Parts>(observer, routes, std::move(protection));
  absl::StatusOr<std::unique_ptr<Listener>> listener = Listener::Start(
      address, {.sharing = sharing}, [to = parts.get()](int fd) { to->exchanges.Add(fd); });
  if (!listener.ok()) {
    return absl::Status(listener.status().code(),
                        absl::StrCat("--http: ", listener.status().message()));
  }
  parts->listener = *std::move(listener);
  return std::unique_ptr<HttpPort>(new HttpPort(std::move(parts)));
}

}  // namespace stowage
