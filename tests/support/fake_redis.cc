#include "tests/support/fake_redis.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include "server/redis/reply.h"

namespace stowage {

FakeRedis::FakeRedis(Answer answer) : answer_(std::move(answer)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, any, size) != 0 || listen(listener_, 64) != 0 ||
      getsockname(listener_, any, &size) != 0) {
    throw std::runtime_error("cannot listen");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

FakeRedis::~FakeRedis() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stops_ = true;
    for (const int fd : connections_) shutdown(fd, SHUT_RDWR);
  }
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  {
    MutexLock lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(mutex_);
  for (const int fd : connections_) close(fd);
}

void FakeRedis::Accept() {
  while (true) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    MutexLock lock(mutex_);
    connections_.push_back(fd);
    if (stops_) return;
    threads_.emplace_back([this, fd] { Serve(fd); });
  }
}

// A command has the form of a reply that is an array of strings.
void FakeRedis::Serve(int fd) const {
  ReplyReader reader;
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t bytes = read(fd, buffer.data(), buffer.size());
    if (bytes <= 0 || !reader.Feed({buffer.data(), static_cast<size_t>(bytes)}).ok()) break;
    absl::StatusOr<std::optional<RedisReply>> next = reader.Next();
    for (; next.ok() && next->has_value(); next = reader.Next()) {
      std::vector<std::string> command;
      for (const RedisReply& argument : (*next)->elements) command.push_back(argument.text);
      const std::string answer = answer_(command);
      if (answer.empty()) {
        shutdown(fd, SHUT_RDWR);
        return;
      }
      if (send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return;
    }
    if (!next.ok()) return;
  }
}

}  // namespace stowage
