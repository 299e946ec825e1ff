#include "server/observe/log_writer.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "solver/base/time/clock.h"

namespace stowage {
namespace {

// Waits until there may be room for more, for a tenth of a second at most.
void WaitForRoom(int fd, double seconds = 0.1) {
  pollfd room = {.fd = fd, .events = POLLOUT, .revents = 0};
  poll(&room, 1, 1 + static_cast<int>(1000 * std::min(seconds, 0.1)));
}

}  // namespace

// A pipe is opened once more, so that writes to it do not wait; the flag of the one that is
// inherited is shared with other processes. Where that fails, there is room for a block whenever
// poll() says so.
LogWriter::LogWriter(int fd, size_t max_bytes, DroppedLine dropped_line)
    : fd_(fd), max_bytes_(max_bytes), dropped_line_(std::move(dropped_line)) {
  struct stat file {};
  if (fstat(fd, &file) != 0) return;
  is_socket_ = S_ISSOCK(file.st_mode);
  if (!S_ISFIFO(file.st_mode)) return;
  const std::string path = absl::StrCat("/proc/self/fd/", fd);
  const int reopened = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (reopened < 0) return;
  fd_ = reopened;
  owns_fd_ = true;
}

LogWriter::~LogWriter() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
  if (owns_fd_) close(fd_);
}

void LogWriter::Start() {
  thread_ = std::thread([this] { Run(); });
}

// How many bytes were written; negative: none, and errno says why, EAGAIN where there is no room.
ssize_t LogWriter::WriteSome(absl::string_view text) const {
  constexpr size_t kBlock = PIPE_BUF;  // what fits into a pipe that has room
  const size_t size = std::min(text.size(), kBlock);
  if (is_socket_) return send(fd_, text.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL);
  pollfd room = {.fd = fd_, .events = POLLOUT, .revents = 0};
  if (poll(&room, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return write(fd_, text.data(), size);
}

void LogWriter::Lose(int64_t lines) {
  dropped_ += lines;
  untold_ += lines;
}

void LogWriter::Take(std::string line) {
  bytes_ += line.size();
  lines_.push_back(std::move(line));
}

// Writes what can be written without waiting. A line that fails is lost: its file is full, or its
// reader has gone.
void LogWriter::Drain() {
  while (!lines_.empty()) {
    std::string& line = lines_.front();
    const ssize_t written = WriteSome(line);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    const bool fails = written < 0;
    const size_t done = fails ? line.size() : static_cast<size_t>(written);
    bytes_ -= done;
    line.erase(0, done);
    if (line.empty()) lines_.pop_front();
    if (fails) {
      Lose(1);
    } else if (lines_.empty() && untold_ > 0) {
      Take(dropped_line_(std::exchange(untold_, 0)));
    }
  }
}

void LogWriter::Write(std::string line) {
  if (line.empty()) return;
  MutexLock lock(mutex_);
  // None waits where one alone is larger than the limit.
  if (!lines_.empty() && bytes_ + line.size() > max_bytes_) {
    // There may be room by now, if nobody has looked since.
    Drain();
    if (!lines_.empty() && bytes_ + line.size() > max_bytes_) return Lose(1);
  }
  Take(std::move(line));
  Drain();
  if (!lines_.empty()) changed_.SignalAll();
}

bool LogWriter::Flush(std::chrono::steady_clock::time_point deadline) {
  while (true) {
    {
      MutexLock lock(mutex_);
      Drain();
      if (lines_.empty()) return true;
    }
    const double left = SecondsBetween(std::chrono::steady_clock::now(), deadline);
    if (left == 0) return false;
    WaitForRoom(fd_, left);
  }
}

void LogWriter::Run() {
  while (true) {
    {
      MutexLock lock(mutex_);
      Drain();
      while (lines_.empty() && !stopping_) changed_.Wait(mutex_);
      if (stopping_) return;
    }
    WaitForRoom(fd_);
  }
}

}  // namespace stowage
