#include "server/net/host_connections.h"

#include <sys/stat.h>

namespace stowage {

HostConnections::Socket HostConnections::SocketOf(int fd) {
  struct stat file {};
  if (fstat(fd, &file) != 0) return {};
  return {.device = file.st_dev, .inode = file.st_ino};
}

void HostConnections::DropEarlier(int fd) {
  const auto earlier = connections_.find(fd);
  if (earlier == connections_.end()) return;
  Hosts::value_type& host = *earlier->second.host;
  connections_.erase(earlier);
  host.second.fds.erase(fd);
  if (host.second.fds.empty()) hosts_.erase(hosts_.find(host.first));
}

void HostConnections::DropClosed(Host& host) {
  absl::erase_if(host.fds, [this](int fd) {
    const auto connection = connections_.find(fd);
    if (SocketOf(fd) == connection->second.socket) return false;
    connections_.erase(connection);
    return true;
  });
}

bool HostConnections::Add(const std::string& host, int fd, Clock::time_point now) {
  if (most_ == 0) return true;
  DropEarlier(fd);
  Hosts::value_type& entry = *hosts_.try_emplace(host).first;
  Host& its = entry.second;
  const auto most = static_cast<size_t>(most_);
  if (its.fds.size() >= most && now >= its.next_search) {
    DropClosed(its);
    its.next_search = now + kBetweenSearches;
  }
  if (its.fds.size() >= most) return false;
  its.fds.insert(fd);
  connections_[fd] = {.socket = SocketOf(fd), .host = &entry};
  return true;
}

}  // namespace stowage
