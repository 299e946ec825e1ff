#include "server/net/waiting_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stowage {
namespace {

using testing::ElementsAre;

NewConnection Of(const std::string& host, int fd) {
  NewConnection connection;
  connection.fd = fd;
  connection.peer.host = host;
  return connection;
}

std::vector<int> TakeAll(WaitingConnections& waiting) {
  std::vector<int> fds;
  while (!waiting.empty()) fds.push_back(waiting.Take().fd);
  return fds;
}

TEST(WaitingConnectionsTest, HostsTakeTurns) {
  WaitingConnections waiting;
  for (const int fd : {1, 2, 3}) waiting.Add(Of("many", fd));
  waiting.Add(Of("one", 4));
  waiting.Add(Of("two", 5));
  waiting.Add(Of("two", 6));
  EXPECT_THAT(TakeAll(waiting), ElementsAre(1, 4, 5, 2, 6, 3));
}

TEST(WaitingConnectionsTest, AHostThatHadItsTurnIsTheLast) {
  WaitingConnections waiting;
  waiting.Add(Of("first", 1));
  waiting.Add(Of("second", 2));
  EXPECT_EQ(waiting.Next().fd, 1);
  EXPECT_EQ(waiting.Take().fd, 1);
  waiting.Add(Of("first", 3));
  EXPECT_THAT(TakeAll(waiting), ElementsAre(2, 3));
  EXPECT_TRUE(waiting.empty());
}

}  // namespace
}  // namespace stowage
