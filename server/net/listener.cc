#include "server/net/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr const char* kInUse =
    "Address already in use: stop the process that holds it, or choose another address";
constexpr const char* kNotShared =
    "Address already in use, and not shared: start both servers with --reuse-port as one user, or "
    "choose another address";
// Before the next try when the system has no descriptor or memory for a connection.
constexpr std::chrono::milliseconds kPause{100};

// How long connections of barred hosts are kept, and how many.
constexpr std::chrono::milliseconds kLate{1000};
constexpr size_t kMaxLate = 256;
// Connections, before those that are open are looked at again.
constexpr int kMaxAtOnce = 256;
// Between two looks whether it is the turn of the next connection, while some wait.
constexpr timespec kTurn{.tv_sec = 0, .tv_nsec = 200'000};

constexpr double kOpenedSeconds = 10;

double OpenedPerSecond(int host_connections) {
  if (host_connections == 0) return 0;
  return std::max(host_connections, ListenerOptions::kMinOpened) / kOpenedSeconds;
}

// ALREADY_EXISTS where another process has the address, else UNAVAILABLE with the system's reason.
absl::Status SocketError(int error, PortSharing sharing = PortSharing::kAlone) {
  if (error != EADDRINUSE) return absl::UnavailableError(std::strerror(error));
  return absl::AlreadyExistsError(sharing == PortSharing::kShared ? kNotShared : kInUse);
}

// A socket that listens on `address`, non-blocking. Errors are those of SocketError().
absl::StatusOr<int> Listen(const sockaddr* address, socklen_t size, PortSharing sharing) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return SocketError(errno);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));  // after a restart
  if (sharing == PortSharing::kShared) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes));
  }
  if (address->sa_family != AF_UNIX) {
    // Inherited by the connections. Responses are written whole, so waiting for more bytes to send
    // (Nagle's algorithm) would only delay them.
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  }
  if (address->sa_family == AF_INET6) {
    // "[::]" takes IPv4 as well, whatever the system's default is.
    const int no = 0;
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
  if (bind(fd, address, size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const absl::Status failed = SocketError(errno, sharing);  // before close() changes errno
  close(fd);
  return failed;
}

void Wake(int event) {
  const uint64_t one = 1;
  (void)!write(event, &one, sizeof(one));
}

int PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  const bool six = bound.ss_family == AF_INET6;
  return ntohs(six ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

}  // namespace

Listener::Listener(ListenerOptions options, Accept accept)
    : options_(std::move(options)),
      opened_(OpenedPerSecond(options_.host_connections), kOpenedSeconds),
      hosts_(options_.host_connections),
      accept_(std::move(accept)) {
  if (options_.accounts != nullptr) {
    governed_.emplace(options_.governor, *options_.accounts, options_.streams_of);
  }
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(const std::string& address,
                                                          ListenerOptions options, Accept accept) {
  std::unique_ptr<Listener> listener(new Listener(std::move(options), std::move(accept)));
  absl::Status status;
  if (absl::StartsWith(address, "unix:")) {
    listener->address_ = address;
    status = listener->ListenOnPath(address.substr(5));
  } else {
    const size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    std::string port = address.substr(colon + 1);
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    status = listener->ListenOnHost(host, &port);
    listener->address_ = absl::StrCat(address.substr(0, colon), ":", port);
  }
  for (int* const event : {&listener->leave_, &listener->stop_governing_}) {
    *event = eventfd(0, EFD_CLOEXEC);
    if (status.ok() && *event < 0) status = SocketError(errno);
  }
  if (!status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, ": ", status.message()));
  }
  listener->thread_ = std::thread([self = listener.get()] { self->Run(); });
  if (listener->options_.accounts != nullptr) {
    listener->governor_ = std::thread([self = listener.get()] { self->Govern(); });
  }
  return listener;
}

Listener::~Listener() {
  StopListening();
  if (governor_.joinable()) {
    Wake(stop_governing_);
    governor_.join();
  }
  for (const int fd : listeners_) close(fd);  // those of a start that failed
  {
    MutexLock lock(mutex_);
    for (const Late& each : late_) close(each.fd);
  }
  for (const int event : {leave_, stop_governing_}) {
    if (event >= 0) close(event);
  }
  if (!path_.empty()) unlink(path_.c_str());
}

void Listener::StopListening() {
  if (!thread_.joinable()) return;
  Wake(leave_);
  thread_.join();
}

// A server that was killed leaves its socket file, on which bind() fails. The file is removed only
// where connecting to it is refused, that is where no process listens: never another server's.
absl::Status Listener::ListenOnPath(const std::string& path) {
  sockaddr_un target{};
  if (path.size() >= sizeof(target.sun_path)) {
    return absl::UnavailableError(
        absl::StrCat("the path is longer than ", sizeof(target.sun_path) - 1, " bytes"));
  }
  target.sun_family = AF_UNIX;
  std::memcpy(target.sun_path, path.data(), path.size());
  const auto* const address = reinterpret_cast<const sockaddr*>(&target);
  // Non-blocking: a live server whose backlog is full gives EAGAIN instead of making this wait.
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return SocketError(errno);
  const int error = connect(probe, address, sizeof(target)) == 0 ? 0 : errno;
  close(probe);
  if (error == 0 || error == EAGAIN) return absl::UnavailableError(kInUse);
  struct stat left {};
  if (error == ECONNREFUSED && lstat(path.c_str(), &left) == 0 && S_ISSOCK(left.st_mode)) {
    unlink(path.c_str());
  }
  const absl::StatusOr<int> fd = Listen(address, sizeof(target), PortSharing::kAlone);
  if (!fd.ok()) {
    return absl::UnavailableError(
        absl::StrCat(fd.status().message(), "; check the directory and its permissions"));
  }
  listeners_.push_back(*fd);
  path_ = path;
  return absl::OkStatus();
}

// Listens on every address of the host, on one port. An address whose family this machine lacks is
// skipped; a port in use on any address is an error, since half a host would be a surprise.
absl::Status Listener::ListenOnHost(const std::string& host, std::string* port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int resolved = getaddrinfo(host.c_str(), port->c_str(), &hints, &found);
  if (resolved != 0) {
    return absl::UnavailableError(absl::StrCat(gai_strerror(resolved), "; write host:port"));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  absl::Status failed;
  std::set<std::string> seen;
  for (addrinfo* each = found; each != nullptr; each = each->ai_next) {
    // All addresses of a host have the port that the first one got; it lies at the same place in
    // both families.
    auto* const in = reinterpret_cast<sockaddr_in*>(each->ai_addr);
    if (!listeners_.empty()) in->sin_port = htons(static_cast<uint16_t>(PortOf(listeners_[0])));
    const std::string bytes(reinterpret_cast<const char*>(each->ai_addr), each->ai_addrlen);
    if (!seen.insert(bytes).second) continue;  // a host may be listed with one address twice
    const absl::StatusOr<int> fd = Listen(each->ai_addr, each->ai_addrlen, options_.sharing);
    if (fd.ok()) {
      listeners_.push_back(*fd);
      in->sin_port = htons(static_cast<uint16_t>(PortOf(*fd)));
      seen.emplace(reinterpret_cast<const char*>(each->ai_addr), each->ai_addrlen);
    } else if (absl::IsAlreadyExists(fd.status())) {
      return fd.status();
    } else {
      failed = fd.status();  // an address of a family that this machine does not have
    }
  }
  // A system without IPv6 has its other addresses left.
  if (listeners_.empty() && host == "::") return ListenOnHost("0.0.0.0", port);
  if (listeners_.empty()) return failed;
  *port = absl::StrCat(PortOf(listeners_[0]));
  return absl::OkStatus();
}

void Listener::Run() {
  std::vector<pollfd> fds;
  for (const int fd : listeners_) fds.push_back({fd, POLLIN, 0});
  fds.push_back({leave_, POLLIN, 0});
  for (;;) {
    const timespec* const pause = waiting_.empty() ? nullptr : &kTurn;
    if (ppoll(fds.data(), fds.size(), pause, /*ss=*/nullptr) < 0) continue;  // EINTR
    if (fds.back().revents != 0) return Leave();
    for (const pollfd& ready : fds) {
      if (ready.revents != 0) (void)AcceptAll(ready.fd);
    }
    HandOnWaiting();
  }
}

// Accepts no more than a queue holds: others may come as fast as they are accepted. The system
// resets a connection that comes between the last accept and close(), and those whose handshake has
// not ended then, unless net.ipv4.tcp_migrate_req has it hand them to whoever shares the port.
void Listener::Leave() {
  constexpr int kRounds = SOMAXCONN / kMaxAtOnce + 1;
  for (const int fd : listeners_) {
    for (int round = 0; round < kRounds && AcceptAll(fd); ++round) {
    }
    close(fd);
  }
  listeners_.clear();
  while (!waiting_.empty()) HandOnNextWaiting();
}

// On a thread of its own: the one that accepts may do gRPC's work for a connection for seconds.
void Listener::Govern() {
  pollfd stop{stop_governing_, POLLIN, 0};
  for (std::chrono::milliseconds pause{0}; poll(&stop, 1, static_cast<int>(pause.count())) <= 0;) {
    const auto now = std::chrono::steady_clock::now();
    std::vector<CutConnection> cut;
    {
      MutexLock lock(mutex_);
      cut = governed_->CutOffFlooders(now);
      pause = governed_->Pause(now);
      CloseLate(now);
    }
    if (options_.observer == nullptr) continue;
    for (const CutConnection& each : cut) options_.observer->ConnectionCutOff(each);
  }
}

bool Listener::IsBarred(const std::string& host, std::chrono::steady_clock::time_point now) {
  MutexLock lock(mutex_);
  return governed_.has_value() && governed_->Bars(host, now);
}

bool Listener::AddToHost(const Peer& peer, int fd, std::chrono::steady_clock::time_point now) {
  MutexLock lock(mutex_);
  return hosts_.Add(peer.host, fd, now);
}

void Listener::SetHostConnections(int most) {
  opened_.SetRate(OpenedPerSecond(most));
  MutexLock lock(mutex_);
  hosts_.SetMost(most);
}

// Accepts until nothing waits, or until the thread has other work: then it returns true. Where the
// system has no descriptor or memory left, the connection stays in the backlog and poll() reports
// it again; the pause keeps the thread from spinning.
bool Listener::AcceptAll(int listener) {
  for (int accepted = 0; accepted < kMaxAtOnce; ++accepted) {
    sockaddr_storage from{};
    socklen_t size = sizeof(from);
    const int fd =
        accept4(listener, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      Admit({fd, PeerOf(from), std::chrono::steady_clock::now()});
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      std::this_thread::sleep_for(kPause);
      return false;
    } else if (errno != ECONNABORTED && errno != EINTR) {
      return false;  // EAGAIN: nothing waits
    }
  }
  return true;
}

bool Listener::IsLimited(const Peer& peer) const {
  return !peer.host.empty() && !(options_.is_exempt && options_.is_exempt(peer.address));
}

bool Listener::IsGoverned(const Peer& peer) const {
  return options_.accounts != nullptr && IsLimited(peer);
}

std::string Listener::RefusalOf(int fd, const Peer& peer) {
  if (fd >= options_.max_descriptors) return kTooFewDescriptors;
  if (!IsLimited(peer)) return "";
  const auto now = std::chrono::steady_clock::now();
  if (IsBarred(peer.host, now)) return kBarred;
  if (!AddToHost(peer, fd, now)) return kTooManyOfHost;
  return opened_.Refuses(peer.host, now).has_value() ? kTooOften : "";
}

void Listener::Refuse(const NewConnection& connection, const std::string& reason) {
  {
    MutexLock lock(mutex_);
    if (reason != kBarred || late_.size() >= kMaxLate) {
      close(connection.fd);
    } else {
      const int min_bytes = 0;  // the system takes its own least
      setsockopt(connection.fd, SOL_SOCKET, SO_RCVBUF, &min_bytes, sizeof(min_bytes));
      late_.push_back({connection.fd, std::chrono::steady_clock::now() + kLate});
    }
  }
  if (options_.observer != nullptr) {
    options_.observer->ConnectionRefused({.reason = reason, .peer = connection.peer.text});
  }
}

void Listener::CloseLate(std::chrono::steady_clock::time_point now) {
  for (; !late_.empty() && late_.front().due <= now; late_.pop_front()) close(late_.front().fd);
}

void Listener::Admit(NewConnection connection) {
  const std::string reason = RefusalOf(connection.fd, connection.peer);
  if (!reason.empty()) return Refuse(connection, reason);
  if (!IsGoverned(connection.peer)) return HandOn(connection);
  waiting_.Add(std::move(connection));
  HandOnWaiting();
}

void Listener::HandOn(const NewConnection& connection) {
  if (options_.observer != nullptr) options_.observer->ConnectionAccepted(connection.peer.text);
  accept_(connection.fd);
}

// One that resets streams keeps gRPC busy for tens of milliseconds until it is cut off. Where many
// do so, taking turns leaves time for the calls of others, and the next of its host is refused.
void Listener::HandOnWaiting() {
  while (!waiting_.empty() && IsItsTurn(std::chrono::steady_clock::now())) HandOnNextWaiting();
}

bool Listener::IsItsTurn(std::chrono::steady_clock::time_point now) {
  const auto age = now - last_handed_on_;
  if (age >= options_.longest_turn) return true;
  const auto longest_wait = ListenerOptions::kMaxTurns * options_.longest_turn;
  if (now - waiting_.Next().accepted >= longest_wait) return true;
  MutexLock lock(mutex_);
  return governed_->HasStarted(last_, age);
}

void Listener::HandOnNextWaiting() {
  const auto now = std::chrono::steady_clock::now();
  const NewConnection next = waiting_.Take();
  if (IsBarred(next.peer.host, now)) return Refuse(next, kBarred);
  {
    MutexLock lock(mutex_);
    governed_->Add(next.fd, next.peer);
  }
  last_ = next.fd;
  last_handed_on_ = now;
  HandOn(next);
}

}  // namespace stowage
