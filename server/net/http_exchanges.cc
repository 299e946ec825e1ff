#include "server/net/http_exchanges.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "server/net/peer.h"

namespace stowage {

Exchanges::Exchanges(size_t most, ConnectionObserver& observer, Serve serve)
    : most_(most),
      observer_(observer),
      serve_(std::move(serve)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  thread_ = std::thread([this] { Run(); });
}

Exchanges::~Exchanges() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_, 1);
  thread_.join();
  while (!exchanges_.empty()) Close(exchanges_.begin());
  close(wake_);
}

void Exchanges::Add(int fd) {
  {
    MutexLock lock(mutex_);
    added_.push_back(fd);
  }
  eventfd_write(wake_, 1);
}

// Moves the new connections into the thread's list. Closing the oldest one, rather than refusing
// the newest, keeps clients that send nothing from locking others out.
void Exchanges::TakeAdded() {
  std::vector<int> added;
  {
    MutexLock lock(mutex_);
    added.swap(added_);
  }
  const Clock::time_point deadline = Clock::now() + kPatience;
  for (const int fd : added) {
    exchanges_.push_back({.fd = fd, .deadline = deadline});
    if (exchanges_.size() <= most_) continue;
    observer_.ConnectionRefused(
        {.reason = kTooManyOperators, .peer = PeerOf(exchanges_.front().fd).text});
    Close(exchanges_.begin());
  }
}

// Each round waits until a socket is ready, Add() or the destructor wakes the thread, or the
// earliest deadline passes; then it advances the exchanges that are ready and closes those that
// have ended or are late. `fds[0]` is the wake-up descriptor, `fds[i]` that of the i-th exchange:
// the list does not change between poll() and the loop over it, except by what the loop erases.
void Exchanges::Run() {
  std::vector<pollfd> fds;
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (stopping_) break;
    }
    TakeAdded();
    fds.assign(1, {wake_, POLLIN, 0});
    Clock::time_point next = Clock::now() + kPatience;
    for (const Exchange& exchange : exchanges_) {
      const bool sends = exchange.sent < exchange.answer.size();
      fds.push_back({exchange.fd, static_cast<short>(sends ? POLLOUT : POLLIN), 0});
      next = std::min(next, exchange.deadline);
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    poll(fds.data(), fds.size(), static_cast<int>(std::max<int64_t>(wait.count(), 0)));
    eventfd_t ignored = 0;
    if (fds[0].revents != 0) eventfd_read(wake_, &ignored);
    const Clock::time_point now = Clock::now();
    size_t i = 1;
    for (auto each = exchanges_.begin(); each != exchanges_.end(); ++i) {
      const auto exchange = each++;
      const bool goes_on = fds[i].revents == 0 || Advance(*exchange);
      if (!goes_on || exchange->deadline <= now) Close(exchange);
    }
  }
  TakeAdded();  // so that the destructor closes these, too
}

bool Exchanges::Advance(Exchange& exchange) {
  return exchange.sent < exchange.answer.size() ? Send(exchange) : Receive(exchange);
}

// Reads until the blank line that ends the request's header, then produces the response and begins
// to send it.
bool Exchanges::Receive(Exchange& exchange) {
  std::array<char, 4096> buffer;
  const ssize_t count = recv(exchange.fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  // The response has been sent and the client is still sending: what it sends is discarded. Closing
  // a socket with unread bytes resets the connection, and the client could lose the response.
  if (!exchange.answer.empty()) return true;
  // The blank line may be split between this read and the one before.
  const size_t from = exchange.request.size() - std::min<size_t>(exchange.request.size(), 3);
  exchange.request.append(buffer.data(), static_cast<size_t>(count));
  const size_t end = exchange.request.find("\r\n\r\n", from);
  if (end == std::string::npos) return exchange.request.size() <= kMostRequestBytes;
  exchange.request.resize(end + 4);
  exchange.answer = serve_(std::move(exchange.request));
  exchange.deadline = Clock::now() + kPatience;
  return !exchange.answer.empty() && Send(exchange);
}

bool Exchanges::Send(Exchange& exchange) {
  const ssize_t count = send(exchange.fd, exchange.answer.data() + exchange.sent,
                             exchange.answer.size() - exchange.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  exchange.sent += static_cast<size_t>(count);
  // Ends the response for the client; the connection stays until it closes its side, too.
  if (exchange.sent == exchange.answer.size()) shutdown(exchange.fd, SHUT_WR);
  return true;
}

void Exchanges::Close(std::list<Exchange>::iterator exchange) {
  close(exchange->fd);
  exchanges_.erase(exchange);
}

}  // namespace stowage
