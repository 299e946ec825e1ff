#include "server/ops/http.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "server/ops/exchanges.h"
#include "server/ops/files.h"

namespace stowage {
namespace {

// What was asked, in memory, and the answer.
class Text final : public httplib::Stream {
 public:
  explicit Text(std::string request) : request_(std::move(request)) {}
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
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

 private:
  const std::string request_;
  size_t read_ = 0;
  std::string answer_;
};

// The library's, whose threads wait for who sends slowly, behind Exchanges, which wait for nobody.
class PatientServer final : public httplib::Server {
 public:
  PatientServer() {
    new_task_queue = [] { return new AtOnce; };
  }

  // Once it is bound. The library lets five connections wait to be accepted; of a crowd the others
  // would try again a second later.
  void LetManyWait() { ::listen(svr_sock_, SOMAXCONN); }

 private:
  // On the thread that accepts connections: all that is done there is to pass them on.
  class AtOnce final : public httplib::TaskQueue {
   public:
    void enqueue(std::function<void()> task) override { task(); }
    void shutdown() override {}
  };

  bool process_and_close_socket(socket_t socket) override {
    exchanges_.Add(socket);
    return true;
  }

  std::string Serve(std::string request) {
    Text text(std::move(request));
    bool closed = false;
    process_request(text, /*close_connection=*/true, closed, nullptr);
    return text.answer();
  }

  Exchanges exchanges_{kMostHttpConnections,
                       [this](std::string request) { return Serve(std::move(request)); }};
};

}  // namespace

struct HttpPort::Listener {
  Pages pages;
  PatientServer server;
  std::thread thread;

  explicit Listener(Pages its_pages) : pages(std::move(its_pages)) {
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
  PatientServer& server = listener->server;
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
  server.LetManyWait();
  std::string bound = absl::StrCat(address.substr(0, colon), ":", port);
  listener->thread = std::thread([&server] { server.listen_after_bind(); });
  // Until then it could not be stopped.
  while (!server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return std::unique_ptr<HttpPort>(new HttpPort(std::move(listener), std::move(bound)));
}

}  // namespace stowage
