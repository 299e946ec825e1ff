#include "client/cli/top/status_reader.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/util/json_util.h"
#include "httplib.h"
#include "solver/base/address.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Together the 5 s of Fetch(); the handshake of TLS has as long as the connection.
constexpr std::chrono::seconds kConnectTimeout{2};
constexpr std::chrono::seconds kReadTimeout{3};
// Limits what a wrong address can make this program hold.
constexpr size_t kMaxBytes = size_t{16} << 20;  // of a response; typical are 30 KB

// While it lives, a write to a connection that has ended is an error on this thread, and no
// SIGPIPE, which would end the program before it gives the terminal back.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeBlocked() {
    const timespec no_time{};
    if (sigismember(&before_, SIGPIPE) == 0) {
      while (sigtimedwait(&sigpipe_, nullptr, &no_time) < 0 && errno == EINTR) continue;
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t sigpipe_;
  sigset_t before_;
};

std::string ReasonOf(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
      return "cannot connect";
    case httplib::Error::ConnectionTimeout:
      return "cannot connect within 2 s";
    case httplib::Error::Read:
      return "it ends the connection, as without --tls where it needs TLS, or does not answer "
             "within 3 s";
    case httplib::Error::SSLConnection:
      return "cannot agree on TLS with it; leave --tls out if its --http does not encrypt";
    case httplib::Error::SSLLoadingCerts:
      return "--tls-ca has no certificate in PEM";
    case httplib::Error::SSLServerVerification:
      return "its certificate is not for this address, or of no authority in --tls-ca";
    default:
      return httplib::to_string(error);
  }
}

// A newer server's has fields that this version lacks.
absl::StatusOr<v1::ServerStatus> ParseStatus(const std::string& text) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  v1::ServerStatus status;
  if (!google::protobuf::util::JsonStringToMessage(text, &status, options).ok() ||
      status.version().empty()) {
    return absl::FailedPreconditionError("its /status is not that of a stowage-server");
  }
  return status;
}

}  // namespace

struct StatusReader::Connection {
  explicit Connection(std::unique_ptr<httplib::ClientImpl> its_client)
      : client(std::move(its_client)) {
    client->set_connection_timeout(kConnectTimeout);
    client->set_read_timeout(kReadTimeout);
  }
  // No keep-alive: idle connections would hold threads of the server.
  const std::unique_ptr<httplib::ClientImpl> client;
};

absl::StatusOr<std::unique_ptr<StatusReader>> StatusReader::Make(const StatusTarget& target) {
  const std::string& address = target.address;
  RETURN_IF_ERROR(CheckAddress(address));
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  int port = 0;
  if (host == "unix" || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(address), " is not host:port of a server's --http, as in 127.0.0.1:50052"));
  }
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  std::unique_ptr<httplib::ClientImpl> client =
      target.tls ? std::make_unique<httplib::SSLClient>(host, port)
                 : std::make_unique<httplib::ClientImpl>(host, port);
  if (!target.authorities_file.empty()) client->set_ca_cert_path(target.authorities_file);
  if (!target.token.empty()) client->set_bearer_token_auth(target.token);
  return std::unique_ptr<StatusReader>(
      new StatusReader(std::make_unique<Connection>(std::move(client))));
}

StatusReader::StatusReader(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)), ready_fd_(eventfd(0, EFD_CLOEXEC)) {}

StatusReader::~StatusReader() {
  if (thread_.joinable()) {
    pollfd ready{ready_fd_, POLLIN, 0};
    // In a loop: stop() has no effect on a fetch that has not connected yet.
    do connection_->client->stop();
    while (poll(&ready, 1, 10) == 0);
    thread_.join();
  }
  close(ready_fd_);
}

// The order of checks goes from the transport to the contents, so that the message names the first
// thing that is wrong with the address.
absl::StatusOr<v1::ServerStatus> StatusReader::Fetch(std::optional<double> since_seconds) {
  const SigpipeBlocked sigpipe_blocked;
  std::string path = "/status";
  if (since_seconds.has_value()) absl::StrAppendFormat(&path, "?since=%.6f", *since_seconds);
  std::string text;
  // The receiver returns false to end a response that is too long.
  const httplib::Result result =
      connection_->client->Get(path.c_str(), [&text](const char* data, size_t size) {
        text.append(data, size);
        return text.size() <= kMaxBytes;
      });
  // Before `result`, which is an error as well when the receiver ends the response.
  if (text.size() > kMaxBytes) {
    return absl::FailedPreconditionError("its /status is longer than a stowage-server's ever is");
  }
  if (!result) return absl::UnavailableError(ReasonOf(result.error()));
  if (result->status == 404) {
    return absl::FailedPreconditionError(
        "it has no /status: not the --http of a stowage-server, or of an older one, which needs a "
        "stowage of its own version");
  }
  if (result->status == 401) {
    return absl::UnauthenticatedError(absl::StripAsciiWhitespace(text));
  }
  if (result->status == 403) {
    return absl::PermissionDeniedError(absl::StripAsciiWhitespace(text));
  }
  if (result->status != 200) {
    return absl::UnavailableError(absl::StrCat("it answers /status with ", result->status));
  }
  return ParseStatus(text);
}

// The thread writes result_ before it signals ready_fd_; FinishFetch() joins it before reading.
void StatusReader::StartFetch(std::optional<double> since_seconds) {
  thread_ = std::thread([this, since_seconds] {
    result_ = Fetch(since_seconds);
    eventfd_write(ready_fd_, 1);
  });
}

absl::StatusOr<v1::ServerStatus> StatusReader::FinishFetch() {
  thread_.join();
  // Resets ready_fd_, which would stay readable.
  eventfd_t value = 0;
  eventfd_read(ready_fd_, &value);
  return *std::exchange(result_, std::nullopt);
}

}  // namespace stowage
