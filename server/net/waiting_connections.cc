#include "server/net/waiting_connections.h"

#include <utility>

namespace stowage {

void WaitingConnections::Add(NewConnection connection) {
  const std::string host = connection.peer.host;
  std::deque<NewConnection>& its = connections_[host];
  if (its.empty()) hosts_.push_back(host);
  its.push_back(std::move(connection));
}

const NewConnection& WaitingConnections::Next() const {
  return connections_.find(hosts_.front())->second.front();
}

NewConnection WaitingConnections::Take() {
  std::string host = std::move(hosts_.front());
  hosts_.pop_front();
  const auto found = connections_.find(host);
  NewConnection next = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) {
    connections_.erase(found);
  } else {
    hosts_.push_back(std::move(host));
  }
  return next;
}

}  // namespace stowage
