#include "tests/integration/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint8_t kEndStream = 1;
constexpr uint8_t kAck = 1;
constexpr uint16_t kInitialWindowSize = 4;
constexpr size_t kFrameHeaderBytes = 9;
constexpr size_t kMaxFrameBytes = 16384;

std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

uint32_t Number(absl::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

// A header that is neither compressed nor remembered.
std::string Literal(absl::string_view name, absl::string_view value) {
  return absl::StrCat(BigEndian(0, 1), BigEndian(name.size(), 1), name, BigEndian(value.size(), 1),
                      value);
}

}  // namespace

RawSocket::RawSocket(const std::string& address, const std::string& from)
    : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const size_t colon = address.rfind(':');
  int port = 0;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) != 1) {
    throw std::runtime_error("no address: " + address);
  }
  to.sin_port = htons(static_cast<uint16_t>(port));
  const int yes = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  const bool is_bound =
      from.empty() || (inet_pton(AF_INET, from.c_str(), &own.sin_addr) == 1 &&
                       bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) == 0);
  if (fd_ < 0 || !is_bound ||
      connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    const std::string why = std::strerror(errno);
    if (fd_ >= 0) close(fd_);
    throw std::runtime_error(absl::StrCat("cannot connect to ", address, ": ", why));
  }
}

RawSocket::~RawSocket() {
  if (fd_ >= 0) close(fd_);
}

bool RawSocket::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return false;
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
  }
  return true;
}

size_t RawSocket::SendSome(absl::string_view bytes) {
  const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return static_cast<size_t>(std::max<ssize_t>(sent, 0));
}

std::string RawSocket::Receive(milliseconds wait) {
  pollfd ready{fd_, POLLIN, 0};
  if (poll(&ready, 1, static_cast<int>(wait.count())) <= 0) return "";
  std::array<char, 65536> buffer;
  const ssize_t count = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count > 0) return {buffer.data(), static_cast<size_t>(count)};
  closed_ = count == 0 || (errno != EAGAIN && errno != EINTR);
  return "";
}

bool RawSocket::ClosedWithin(milliseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  while (!closed_ && Clock::now() < end) {
    Receive(std::chrono::ceil<milliseconds>(end - Clock::now()));
  }
  return closed_;
}

std::string FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool is_bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  if (!is_bound) throw std::runtime_error("there is no free port");
  return absl::StrCat(ntohs(address.sin_port));
}

void WaitUntilListening(const std::string& address) {
  const Clock::time_point end = Clock::now() + std::chrono::minutes(2);
  while (Clock::now() < end) {
    try {
      const RawSocket connected(address);
      return;
    } catch (const std::runtime_error&) {
      std::this_thread::sleep_for(milliseconds(20));
    }
  }
}

std::string Http2Preface(uint32_t window_bytes) {
  const std::string setting =
      absl::StrCat(BigEndian(kInitialWindowSize, 2), BigEndian(window_bytes, 4));
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Http2Frame(Http2::kSettings, 0, 0, setting);
}

std::string Http2Frame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload) {
  return absl::StrCat(BigEndian(payload.size(), 3), BigEndian(type, 1), BigEndian(flags, 1),
                      BigEndian(stream, 4), payload);
}

std::string GrpcMessage(absl::string_view bytes, size_t announced) {
  return absl::StrCat(BigEndian(0, 1), BigEndian(announced, 4), bytes);
}

RawGrpc::RawGrpc(const std::string& address, uint32_t window_bytes, const std::string& from)
    : socket_(address, from) {
  socket_.Send(Http2Preface(window_bytes));
}

void RawGrpc::Begin(uint32_t stream, absl::string_view method) {
  const std::string path = absl::StartsWith(method, "/")
                               ? std::string(method)
                               : absl::StrCat("/stowage.v1.Scheduler/", method);
  const std::string headers =
      absl::StrCat(Literal(":method", "POST"), Literal(":scheme", "http"), Literal(":path", path),
                   Literal(":authority", "test"), Literal("content-type", "application/grpc"),
                   Literal("te", "trailers"));
  open_ = open_ && socket_.Send(Http2Frame(Http2::kHeaders, Http2::kEndHeaders, stream, headers));
  windows_[stream] = first_window_;
}

size_t RawGrpc::Send(uint32_t stream, absl::string_view bytes, milliseconds patience) {
  size_t sent = 0;
  Clock::time_point end = Clock::now() + patience;
  while (open_ && sent < bytes.size() && windows_.count(stream) != 0 && Clock::now() < end) {
    const int64_t room = std::min(window_, windows_[stream]);
    if (room <= 0) {
      Receive(milliseconds(10));
      continue;
    }
    const size_t size = std::min({kMaxFrameBytes, static_cast<size_t>(room), bytes.size() - sent});
    open_ = socket_.Send(Http2Frame(Http2::kData, 0, stream, bytes.substr(sent, size)));
    sent += size;
    window_ -= static_cast<int64_t>(size);
    windows_[stream] -= static_cast<int64_t>(size);
    end = Clock::now() + patience;
    Receive(milliseconds(0));
  }
  return sent;
}

void RawGrpc::End(uint32_t stream) {
  open_ = open_ && socket_.Send(Http2Frame(Http2::kData, kEndStream, stream, ""));
}

std::string RawGrpc::FramesUntilEnd(uint32_t stream, milliseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  while (open_ && ended_.count(stream) == 0 && Clock::now() < end) {
    Receive(std::chrono::ceil<milliseconds>(end - Clock::now()));
  }
  return frames_[stream];
}

bool RawGrpc::Ping(milliseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  const int answered = pings_answered_;
  open_ = open_ && socket_.Send(Http2Frame(Http2::kPing, 0, 0, std::string(8, 'p')));
  while (open_ && pings_answered_ == answered && Clock::now() < end) {
    Receive(std::chrono::ceil<milliseconds>(end - Clock::now()));
  }
  return pings_answered_ > answered;
}

void RawGrpc::Receive(milliseconds wait) {
  received_ += socket_.Receive(wait);
  open_ = open_ && !socket_.closed();
  absl::string_view left = received_;
  while (left.size() >= kFrameHeaderBytes) {
    const size_t size = Number(left.substr(0, 3));
    if (left.size() < kFrameHeaderBytes + size) break;
    Understand(static_cast<uint8_t>(left[3]), static_cast<uint8_t>(left[4]),
               Number(left.substr(5, 4)), left.substr(kFrameHeaderBytes, size));
    left.remove_prefix(kFrameHeaderBytes + size);
  }
  received_ = std::string(left);
}

void RawGrpc::Understand(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload) {
  if (type == Http2::kReset) windows_.erase(stream);
  if (type == Http2::kHeaders) frames_[stream] += 'H';
  if (type == Http2::kData) frames_[stream] += 'D';
  if ((type == Http2::kHeaders || type == Http2::kData) && (flags & kEndStream) != 0)
    ended_.insert(stream);
  if (type == Http2::kWindowUpdate) {
    const uint32_t more = Number(payload);
    if (stream == 0) window_ += more;
    if (windows_.count(stream) != 0) windows_[stream] += more;
  }
  if (type == Http2::kPing && (flags & kAck) != 0) ++pings_answered_;
  if (type == Http2::kPing && (flags & kAck) == 0)
    socket_.Send(Http2Frame(Http2::kPing, kAck, 0, payload));
  if (type != Http2::kSettings || (flags & kAck) != 0) return;
  for (; payload.size() >= 6; payload.remove_prefix(6)) {
    if (Number(payload.substr(0, 2)) != kInitialWindowSize) continue;
    const int64_t window = Number(payload.substr(2, 4));
    for (auto& [each, left] : windows_) left += window - first_window_;
    first_window_ = window;
  }
  socket_.Send(Http2Frame(Http2::kSettings, kAck, 0, ""));
}

}  // namespace stowage
