#include "server/net/stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace stowage {
namespace {

class PlainStream final : public Stream {
 public:
  explicit PlainStream(int fd) : fd_(fd) {}
  ~PlainStream() override { close(fd_); }

  int fd() const override { return fd_; }
  short Awaits(short events) const override { return events; }
  Progress Read(char* to, size_t bytes) override {
    const ssize_t count = recv(fd_, to, bytes, 0);
    return count == 0 ? Progress{.has_ended = true} : ProgressOf(count);
  }
  Progress Write(absl::string_view from) override {
    return ProgressOf(send(fd_, from.data(), from.size(), MSG_NOSIGNAL));
  }
  void EndWriting() override { shutdown(fd_, SHUT_WR); }
  void TimeOut() override {}

 private:
  static Progress ProgressOf(ssize_t count) {
    if (count >= 0) return {.bytes = static_cast<size_t>(count)};
    return {.has_ended = errno != EAGAIN && errno != EINTR};
  }

  const int fd_;
};

}  // namespace

std::unique_ptr<Stream> MakePlainStream(int fd) { return std::make_unique<PlainStream>(fd); }

}  // namespace stowage
