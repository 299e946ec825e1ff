#include "server/net/http_exchanges.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/net/peer.h"

namespace stowage {

Exchanges::Exchanges(Options options, ConnectionObserver& observer, Serve serve)
    : options_(std::move(options)),
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
    std::unique_ptr<Stream> stream = options_.open(fd);
    if (stream == nullptr) continue;
    exchanges_.push_back({.stream = std::move(stream), .deadline = deadline});
    if (exchanges_.size() <= options_.most) continue;
    observer_.ConnectionRefused(
        {.reason = kTooManyOperators, .peer = PeerOf(exchanges_.front().stream->fd()).text});
    exchanges_.pop_front();
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
      const short events = exchange.stream->Awaits(sends ? POLLOUT : POLLIN);
      fds.push_back({exchange.stream->fd(), events, 0});
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
      const bool is_late = exchange->deadline <= now;
      if (goes_on && is_late) exchange->stream->TimeOut();
      if (!goes_on || is_late) exchanges_.erase(exchange);
    }
  }
  TakeAdded();  // so that these are closed, too
}

bool Exchanges::Advance(Exchange& exchange) {
  return exchange.sent < exchange.answer.size() ? Send(exchange) : Receive(exchange);
}

// Reads until the blank line that ends the request's header, then produces the response and begins
// to send it.
bool Exchanges::Receive(Exchange& exchange) {
  std::array<char, Stream::kReadBytes> buffer;
  const Stream::Progress read = exchange.stream->Read(buffer.data(), buffer.size());
  if (read.bytes == 0) return !read.has_ended;
  // The response has been sent and the client is still sending: what it sends is discarded. Closing
  // a socket with unread bytes resets the connection, and the client could lose the response.
  if (!exchange.answer.empty()) return true;
  // The blank line may be split between this read and the one before.
  const size_t from = exchange.request.size() - std::min<size_t>(exchange.request.size(), 3);
  exchange.request.append(buffer.data(), read.bytes);
  const size_t end = exchange.request.find("\r\n\r\n", from);
  if (end == std::string::npos) return exchange.request.size() <= kMaxRequestBytes;
  exchange.request.resize(end + 4);
  exchange.answer = serve_(std::move(exchange.request), PeerOf(exchange.stream->fd()).text);
  exchange.deadline = Clock::now() + kPatience;
  return !exchange.answer.empty() && Send(exchange);
}

bool Exchanges::Send(Exchange& exchange) {
  const Stream::Progress written =
      exchange.stream->Write(absl::string_view(exchange.answer).substr(exchange.sent));
  exchange.sent += written.bytes;
  // Ends the response for the client; the connection stays until it closes its side, too.
  if (exchange.sent == exchange.answer.size()) exchange.stream->EndWriting();
  return !written.has_ended;
}

}  // namespace stowage
