#include "server/net/governed_connections.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "server/net/listener.h"
#include "server/net/peer.h"
#include "tests/integration/raw_client.h"

namespace stowage {
namespace {

using std::chrono::milliseconds;

// One connection, both ends of which are the test's.
class StartOfAConnectionTest : public testing::Test {
 protected:
  StartOfAConnectionTest()
      : listener_(*Listener::Start("127.0.0.1:0", {}, [this](int fd) { fd_.set_value(fd); })),
        client_(listener_->address()),
        server_(fd_.get_future().get()),
        governed_({}, accounts_, [this](const std::string&) { return streams_; }) {
    governed_.Add(server_, PeerOf(server_));
  }
  ~StartOfAConnectionTest() override { close(server_); }

  bool HasStartedAfter(milliseconds age) { return governed_.HasStarted(server_, age); }
  // Until the other end has received them.
  void Send(size_t bytes) {
    ASSERT_TRUE(client_.Send(std::string(bytes, 'x')));
    int received = 0;
    while (received < static_cast<int>(bytes)) ASSERT_EQ(ioctl(server_, FIONREAD, &received), 0);
  }
  void Read(size_t bytes) {
    std::string buffer(bytes, 0);
    ASSERT_EQ(recv(server_, buffer.data(), bytes, 0), static_cast<ssize_t>(bytes));
  }

  static constexpr milliseconds kSoon{2};
  static constexpr size_t kMuch = 8192;
  std::promise<int> fd_;
  std::unique_ptr<Listener> listener_;
  RawSocket client_;
  int server_;
  ConnectionAccounts accounts_;
  StreamTotals streams_;
  GovernedConnections governed_;
};

TEST_F(StartOfAConnectionTest, OneThatSendsLittleHasStartedSoon) {
  Send(500);
  EXPECT_FALSE(HasStartedAfter(milliseconds(0)));
  EXPECT_TRUE(HasStartedAfter(kSoon));
}

TEST_F(StartOfAConnectionTest, WhatHasNotBeenReadMayBeAFlood) {
  Send(kMuch);
  EXPECT_FALSE(HasStartedAfter(kSoon));
}

TEST_F(StartOfAConnectionTest, ManyStreamsWithoutACallMayBeAFlood) {
  Send(kMuch);
  Read(kMuch);
  streams_.begun = 100;
  EXPECT_FALSE(HasStartedAfter(kSoon));
}

TEST_F(StartOfAConnectionTest, ALargeRequestIsNone) {
  Send(kMuch);
  Read(kMuch);
  streams_.begun = 1;
  EXPECT_TRUE(HasStartedAfter(kSoon));
}

TEST_F(StartOfAConnectionTest, NorIsACall) {
  Send(kMuch);
  accounts_.Of(PeerOf(server_).text)->Begin(100);
  EXPECT_TRUE(HasStartedAfter(milliseconds(0)));
}

TEST_F(StartOfAConnectionTest, OneThatIsClosedHasStarted) {
  EXPECT_TRUE(governed_.HasStarted(server_ + 1, milliseconds(0)));
  close(server_);
  EXPECT_TRUE(HasStartedAfter(milliseconds(0)));
  server_ = socket(AF_INET, SOCK_STREAM, 0);
}

}  // namespace
}  // namespace stowage
