#include "server/net/host_connections.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace stowage {
namespace {

using Clock = HostConnections::Clock;

// A connected socket, until Close() or the end.
class Connection {
 public:
  Connection() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()), 0); }
  ~Connection() { Close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return ends_[0]; }
  void Close() {
    for (int& end : ends_) {
      if (end >= 0) close(end);
      end = -1;
    }
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

class HostConnectionsTest : public testing::Test {
 protected:
  bool Add(const std::string& host, const Connection& connection) {
    return hosts_.Add(host, connection.fd(), now_);
  }
  void Later() { now_ += HostConnections::kBetweenSearches; }

  HostConnections hosts_{2};
  Clock::time_point now_ = Clock::now();
};

TEST_F(HostConnectionsTest, EachHostHasItsOwnLimit) {
  const std::array<Connection, 6> connections;
  EXPECT_TRUE(Add("a", connections[0]));
  EXPECT_TRUE(Add("a", connections[1]));
  EXPECT_FALSE(Add("a", connections[2]));
  EXPECT_TRUE(Add("b", connections[3]));
  EXPECT_TRUE(Add("b", connections[4]));
  EXPECT_FALSE(Add("b", connections[5]));
}

TEST_F(HostConnectionsTest, AClosedConnectionFreesItsPlace) {
  std::array<Connection, 3> connections;
  EXPECT_TRUE(Add("a", connections[0]));
  EXPECT_TRUE(Add("a", connections[1]));
  connections[0].Close();
  EXPECT_TRUE(Add("a", connections[2]));
}

TEST_F(HostConnectionsTest, ADescriptorThatNowIsAnotherFileFreesItsPlace) {
  std::array<Connection, 3> connections;
  const Connection other;
  EXPECT_TRUE(Add("a", connections[0]));
  EXPECT_TRUE(Add("a", connections[1]));
  // As the number of a closed connection is that of the next file.
  ASSERT_EQ(dup2(other.fd(), connections[0].fd()), connections[0].fd());
  EXPECT_TRUE(Add("a", connections[2]));
}

TEST_F(HostConnectionsTest, ADescriptorThatIsAcceptedAgainIsOneConnection) {
  const std::array<Connection, 2> connections;
  EXPECT_TRUE(Add("a", connections[0]));
  EXPECT_TRUE(Add("a", connections[0]));
  EXPECT_TRUE(Add("a", connections[1]));
  EXPECT_TRUE(Add("b", connections[0]));  // no longer of a
  const Connection third;
  EXPECT_TRUE(Add("a", third));
}

// So that a host that goes on connecting costs the thread little.
TEST_F(HostConnectionsTest, SearchesForClosedConnectionsNowAndThen) {
  std::array<Connection, 3> connections;
  EXPECT_TRUE(Add("a", connections[0]));
  EXPECT_TRUE(Add("a", connections[1]));
  EXPECT_FALSE(Add("a", connections[2]));
  connections[0].Close();
  EXPECT_FALSE(Add("a", connections[2]));
  Later();
  EXPECT_TRUE(Add("a", connections[2]));
}

TEST_F(HostConnectionsTest, ALimitThatChangesHoldsForConnectionsThatCome) {
  const std::array<Connection, 4> connections;
  EXPECT_TRUE(Add("a", connections[0]));
  EXPECT_TRUE(Add("a", connections[1]));
  hosts_.SetMost(3);
  EXPECT_TRUE(Add("a", connections[2]));
  hosts_.SetMost(1);
  EXPECT_FALSE(Add("a", connections[3]));
  EXPECT_TRUE(Add("b", connections[3]));
  hosts_.SetMost(0);
  EXPECT_TRUE(Add("a", connections[3]));
}

TEST(HostConnections, HaveNoLimitOfZero) {
  HostConnections hosts(0);
  const std::array<Connection, 10> connections;
  for (const Connection& connection : connections) {
    EXPECT_TRUE(hosts.Add("a", connection.fd(), Clock::now()));
  }
}

}  // namespace
}  // namespace stowage
