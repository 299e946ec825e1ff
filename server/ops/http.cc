#include "server/ops/http.h"

#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"

namespace stowage {
namespace {

constexpr int kThreads = 4;
constexpr int kPatienceSeconds = 5;  // with who sends or reads slowly
constexpr size_t kMostRequestBytes = 64 << 10;

}  // namespace

struct HttpPort::Listener {
  Pages pages;
  httplib::Server server;
  std::thread thread;

  explicit Listener(Pages its_pages) : pages(std::move(its_pages)) {
    server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server.set_read_timeout(kPatienceSeconds);
    server.set_write_timeout(kPatienceSeconds);
    server.set_keep_alive_timeout(kPatienceSeconds);
    server.set_payload_max_length(kMostRequestBytes);
    server.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(pages.metrics(), "text/plain; version=0.0.4");
    });
    server.Get("/livez", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("ok\n", "text/plain");
    });
    server.Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
      const bool ready = pages.ready();
      response.status = ready ? 200 : 503;
      response.set_content(ready ? "ok\n" : "not ready: starting or draining\n", "text/plain");
    });
  }
};

HttpPort::HttpPort(std::unique_ptr<Listener> listener, std::string address)
    : listener_(std::move(listener)), address_(std::move(address)) {}

HttpPort::~HttpPort() {
  listener_->server.stop();
  listener_->thread.join();
}

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Start(const std::string& address, Pages pages) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port)) {
    return absl::InvalidArgumentError(
        absl::StrCat(address, " is not host:port, as in 127.0.0.1:50052"));
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  auto listener = std::make_unique<Listener>(std::move(pages));
  httplib::Server& server = listener->server;
  // Two servers would share the port silently.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  if (port == 0) {
    port = server.bind_to_any_port(host.c_str());
  } else if (!server.bind_to_port(host.c_str(), port)) {
    port = -1;
  }
  if (port < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address,
                     " for HTTP: stop the process that holds it, or choose another with --http"));
  }
  std::string bound = absl::StrCat(address.substr(0, colon), ":", port);
  listener->thread = std::thread([&server] { server.listen_after_bind(); });
  // Until then it could not be stopped.
  while (!server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return std::unique_ptr<HttpPort>(new HttpPort(std::move(listener), std::move(bound)));
}

}  // namespace stowage
