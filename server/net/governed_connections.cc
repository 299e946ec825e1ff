#include "server/net/governed_connections.h"

#include <linux/tcp.h>  // its tcp_info has the bytes, which that of the C library lacks
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace stowage {
namespace {

using std::chrono::milliseconds;

// A stream that is reset at once takes 19 KB and 0.1 ms of gRPC, which begins 400,000 a second: a
// thousand between two looks.
constexpr milliseconds kPause{3};
// While nothing has been received for so long.
constexpr milliseconds kIdlePause{20};
constexpr milliseconds kIdle{1000};
// The looks take a fiftieth of a processor at most, and a quarter while so many streams have begun
// without a call: a flood would take all of them.
constexpr int kShare = 50;
constexpr int kShareInFloods = 4;
constexpr int64_t kManyArriving = 200;

// Counting the streams of a connection takes 25 microseconds; a reset stream takes 28 bytes.
constexpr int kMaxCounted = 50;
constexpr int64_t kCountedBytes = 4096;
// Streams that ended without a call, and bring no bytes, are noticed so late.
constexpr std::chrono::seconds kCountedAgain{1};

// What a handshake and a few calls do. A flood of a connection that had to wait is there at once.
constexpr std::chrono::microseconds kFirst{500};
constexpr int64_t kFewBytes = 4096;
constexpr int64_t kFewStreams = 20;

// Of the calling thread.
double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// 0: the descriptor is closed.
ino_t InodeOf(int fd) {
  struct stat file {};
  return fstat(fd, &file) == 0 ? file.st_ino : 0;
}

// Through a descriptor of our own, so that gRPC cannot close the socket, and another one get its
// number, in between. Disconnecting also throws away what was received and not read, of which
// shutdown() would leave megabytes to be read.
void CutOff(int fd, ino_t inode) {
  const int own = dup(fd);
  if (own < 0) return;
  if (InodeOf(own) == inode) {
    sockaddr nobody{};
    nobody.sa_family = AF_UNSPEC;
    if (connect(own, &nobody, sizeof(nobody)) != 0) shutdown(own, SHUT_RDWR);
  }
  close(own);
}

}  // namespace

bool GovernedConnections::Read(int fd, Connection& connection) {
  ConnectionFigures& figures = connection.figures;
  figures.calls = connection.account->Totals();  // first, so that its bytes are among the others
  tcp_info info{};
  socklen_t size = sizeof(info);
  int unread = 0;
  if (InodeOf(fd) != connection.inode || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      ioctl(fd, FIONREAD, &unread) != 0) {
    return false;
  }
  figures.received_bytes = static_cast<int64_t>(info.tcpi_bytes_received);
  connection.read_bytes = figures.received_bytes - unread;
  figures.sent_bytes = static_cast<int64_t>(info.tcpi_bytes_sent - info.tcpi_bytes_retrans);
  // Calls that have begun since are streams that were arriving then, and beyond those new ones.
  const int64_t arriving =
      connection.counted_arriving - (figures.calls.begun - connection.counted_calls.begun);
  figures.arriving = std::max<int64_t>(arriving, 0);
  figures.streams = connection.counted_streams + std::max<int64_t>(-arriving, 0);
  return true;
}

void GovernedConnections::Add(int fd, const Peer& peer) {
  if (const auto earlier = connections_.find(fd); earlier != connections_.end()) {
    accounts_.Close(earlier->second.peer, *earlier->second.account);
    governor_.Remove(fd);
  }
  connections_[fd] = {
      .inode = InodeOf(fd), .peer = peer.text, .account = accounts_.Open(peer.text)};
  governor_.Add(fd, peer.host);
  last_received_ = Clock::now();
}

bool GovernedConnections::IsToBeCounted(const Connection& connection, Clock::time_point now) {
  if (connection.read_bytes - connection.counted_bytes >= kCountedBytes) return true;
  return connection.figures.arriving > 0 && now >= connection.counted + kCountedAgain;
}

void GovernedConnections::CountStreams(const StreamTotals& streams, Connection& connection,
                                       Clock::time_point now) {
  ConnectionFigures& figures = connection.figures;
  const int64_t open = streams.begun - streams.ended;
  figures.streams = std::max(figures.streams, streams.begun);
  figures.arriving = std::max<int64_t>(open - (figures.calls.begun - figures.calls.ended), 0);
  connection.counted_bytes = connection.read_bytes;
  connection.counted_streams = figures.streams;
  connection.counted_arriving = figures.arriving;
  connection.counted_calls = figures.calls;
  connection.counted = now;
}

void GovernedConnections::CountStreams(Clock::time_point now) {
  int left = kMaxCounted;
  const auto count = [&](auto begin, auto end) {
    for (auto each = begin; each != end && left > 0; ++each) {
      auto& [fd, connection] = *each;
      if (!IsToBeCounted(connection, now)) continue;
      CountStreams(streams_of_(connection.peer), connection, now);
      last_counted_ = fd;
      --left;
    }
  };
  const auto first = connections_.upper_bound(last_counted_);
  count(first, connections_.end());
  count(connections_.begin(), first);
}

bool GovernedConnections::HasStarted(int fd, Clock::duration age) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return true;
  Connection& its = found->second;
  if (!Read(fd, its) || its.figures.calls.begun > 0) return true;
  if (age < kFirst) return false;
  if (its.figures.received_bytes < kFewBytes) return true;
  // Of the streams in what gRPC has not read nobody knows.
  return its.read_bytes >= kFewBytes && streams_of_(its.peer).begun <= kFewStreams;
}

std::vector<CutConnection> GovernedConnections::CutOffFlooders(Clock::time_point now) {
  const double begin_seconds = CpuSeconds();
  for (auto next = connections_.begin(); next != connections_.end();) {
    const auto each = next++;
    auto& [fd, connection] = *each;
    const int64_t received = connection.figures.received_bytes;
    if (Read(fd, connection)) {
      if (connection.figures.received_bytes > received) last_received_ = now;
      continue;
    }
    accounts_.Close(connection.peer, *connection.account);
    governor_.Remove(fd);
    connections_.erase(each);
  }
  CountStreams(now);
  int64_t arriving = 0;
  for (const auto& [fd, connection] : connections_) {
    arriving += connection.figures.arriving;
    governor_.Update(fd, connection.figures, now);
  }
  is_flood_ = arriving > kManyArriving;
  std::vector<CutConnection> cut;
  for (const auto& [fd, reason] : governor_.Judge(now)) {
    const auto found = connections_.find(fd);
    CutOff(fd, found->second.inode);
    cut.push_back({.reason = reason, .peer = found->second.peer});
    accounts_.Close(found->second.peer, *found->second.account);
    connections_.erase(found);
  }
  spent_seconds_ = CpuSeconds() - begin_seconds;
  return cut;
}

milliseconds GovernedConnections::Pause(Clock::time_point now) const {
  const milliseconds least = now - last_received_ < kIdle ? kPause : kIdlePause;
  const double seconds = (is_flood_ ? kShareInFloods : kShare) * spent_seconds_;
  return std::max(least, milliseconds(static_cast<int64_t>(1e3 * seconds)));
}

}  // namespace stowage
