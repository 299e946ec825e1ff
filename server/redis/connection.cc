#include "server/redis/connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/net/tls_stream.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::Status SystemError(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::generic_category().message(error)));
}

absl::StatusOr<Addresses> Resolve(const RedisNode& node) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(node.host.c_str(), absl::StrCat(node.port).c_str(), &hints, &found);
  if (error == 0) return Addresses(found, freeaddrinfo);
  return absl::UnavailableError(absl::StrCat("its name cannot be resolved: ", gai_strerror(error)));
}

// Waits until the descriptor is ready for `events`.
absl::Status WaitFor(int fd, short events, Clock::time_point deadline) {
  using std::chrono::milliseconds;
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return absl::DeadlineExceededError("it did not answer in time");
    pollfd polled = {.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&polled, 1, static_cast<int>(std::min<int64_t>(left, INT_MAX)));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return SystemError("cannot wait", errno);
  }
}

// A connected, non-blocking socket, which the caller closes.
absl::StatusOr<int> ConnectTo(const addrinfo& address, Clock::time_point deadline) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return SystemError("no socket", errno);
  absl::Status status;
  if (connect(fd, address.ai_addr, address.ai_addrlen) != 0) {
    status = errno == EINPROGRESS ? WaitFor(fd, POLLOUT, deadline)
                                  : SystemError("cannot connect", errno);
    int error = 0;
    socklen_t size = sizeof(error);
    if (status.ok() && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0) {
      status = SystemError("cannot connect", error);
    }
  }
  if (!status.ok()) {
    close(fd);
    return status;
  }
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

// Tries the addresses of the name one after another.
absl::StatusOr<int> ConnectToAny(const RedisNode& node, Clock::time_point deadline) {
  ASSIGN_OR_RETURN(const Addresses addresses, Resolve(node));
  absl::StatusOr<int> fd = absl::UnavailableError("it has no address");
  for (const addrinfo* address = addresses.get(); address != nullptr && !fd.ok();
       address = address->ai_next) {
    fd = ConnectTo(*address, deadline);
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Connect(const RedisNode& node,
                                                                          const RedisLogin& login,
                                                                          Deadline deadline) {
  std::unique_ptr<RedisConnection> connection(new RedisConnection(node));
  RedisConnection& self = *connection;
  const absl::StatusOr<int> fd = ConnectToAny(node, deadline);
  if (!fd.ok()) return self.Annotated(fd.status());
  if (login.tls == nullptr) {
    self.stream_ = MakePlainStream(*fd);
  } else {
    const auto failed = [&self](const std::string& message) { self.tls_error_ = message; };
    self.stream_ = MakeTlsClientStream(*fd, login.tls.get(), node.host, failed);
  }
  if (self.stream_ == nullptr) return self.Annotated(absl::UnavailableError("TLS cannot begin"));
  if (login.password.empty()) return connection;
  Arguments arguments = {"AUTH"};
  if (!login.user.empty()) arguments.emplace_back(login.user);
  arguments.emplace_back(login.password);
  ASSIGN_OR_RETURN(const RedisReply reply, connection->Call(arguments, deadline));
  if (reply.is_error()) {
    return self.Annotated(absl::PermissionDeniedError(
        absl::StrCat("it refuses user and password: ", Quoted(reply.text))));
  }
  return connection;
}

absl::Status RedisConnection::Annotated(const absl::Status& status) const {
  return {status.code(), absl::StrCat(ToText(node_), ": ", status.message())};
}

absl::Status RedisConnection::Closed() const {
  if (tls_error_.empty()) return absl::UnavailableError("it closed the connection");
  return absl::UnavailableError(absl::StrCat("TLS failed: ", tls_error_));
}

absl::StatusOr<RedisReply> RedisConnection::Call(const Arguments& arguments, Deadline deadline) {
  if (const absl::Status written = Write(FormatCommand(arguments), deadline); !written.ok()) {
    return Annotated(written);
  }
  absl::StatusOr<RedisReply> reply = Read(deadline);
  if (!reply.ok()) return Annotated(reply.status());
  return reply;
}

absl::Status RedisConnection::Await(short events, Deadline deadline) {
  return WaitFor(stream_->fd(), stream_->Awaits(events), deadline);
}

absl::Status RedisConnection::Write(absl::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const Stream::Progress progress = stream_->Write(bytes);
    if (progress.has_ended) return Closed();
    bytes.remove_prefix(progress.bytes);
    if (progress.bytes == 0) RETURN_IF_ERROR(Await(POLLOUT, deadline));
  }
  return absl::OkStatus();
}

// Bytes behind the reply would be read as the reply to the next command.
absl::StatusOr<RedisReply> RedisConnection::Read(Deadline deadline) {
  std::array<char, Stream::kReadBytes> buffer;
  while (true) {
    const Stream::Progress progress = stream_->Read(buffer.data(), buffer.size());
    if (progress.has_ended) return Closed();
    if (progress.bytes == 0) {
      RETURN_IF_ERROR(Await(POLLIN, deadline));
      continue;
    }
    RETURN_IF_ERROR(reader_.Feed({buffer.data(), progress.bytes}));
    ASSIGN_OR_RETURN(std::optional<RedisReply> reply, reader_.Next());
    if (!reply.has_value()) continue;
    if (reader_.has_more()) return absl::DataLossError("it sent more than one reply");
    return *std::move(reply);
  }
}

}  // namespace stowage
