#include "server/net/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>

#include "tests/integration/raw_client.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::chrono::seconds kLong{60};

TEST(Listener, HandsConnectionsOver) {
  auto listener = Listener::Start("127.0.0.1:0", 1000, [](int fd) {
    EXPECT_EQ(write(fd, "hello", 5), 5);
    close(fd);
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_THAT((*listener)->address(), StartsWith("127.0.0.1:"));
  RawSocket socket((*listener)->address());
  EXPECT_EQ(socket.Receive(kLong), "hello");
}

TEST(Listener, ClosesConnectionsBeyondTheLastDescriptor) {
  std::atomic<int> accepted = 0;
  // Descriptors below that are those of this test.
  auto listener = Listener::Start("127.0.0.1:0", 3, [&](int) { ++accepted; });
  ASSERT_TRUE(listener.ok()) << listener.status();
  for (int i = 0; i < 10; ++i) {
    RawSocket socket((*listener)->address());
    EXPECT_TRUE(socket.ClosedWithin(kLong));
  }
  EXPECT_EQ(accepted, 0);
}

// A live server keeps its socket; the file of a server that was killed is replaced.
TEST(Listener, ReplacesOnlyTheSocketFileOfADeadServer) {
  const TempFolder folder;
  const std::string address = "unix:" + folder.Path("socket");
  const auto start = [&address] {
    return Listener::Start(address, 1000, [](int fd) { close(fd); });
  };
  {
    auto first = start();
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_THAT(std::string(start().status().message()), HasSubstr("already in use"));
    struct stat left {};
    EXPECT_EQ(lstat(folder.Path("socket").c_str(), &left), 0);  // it is still there
  }
  EXPECT_TRUE(start().ok());
}

TEST(Listener, ReportsWhyItCannotListen) {
  auto first = Listener::Start("127.0.0.1:0", 1000, [](int fd) { close(fd); });
  ASSERT_TRUE(first.ok());
  const auto refusal = [](const std::string& address) {
    const auto listener = Listener::Start(address, 1000, [](int fd) { close(fd); });
    EXPECT_FALSE(listener.ok());
    return std::string(listener.status().message());
  };
  EXPECT_THAT(refusal((*first)->address()),
              AllOf(HasSubstr((*first)->address()), HasSubstr("already in use"),
                    HasSubstr("choose another")));
  EXPECT_THAT(refusal("no such host:1"), HasSubstr("write host:port"));
  EXPECT_THAT(refusal("unix:" + std::string(200, 'x')), HasSubstr("longer than 107 bytes"));
  EXPECT_THAT(refusal("unix:/no/such/folder/socket"), HasSubstr("check the directory"));
}

}  // namespace
}  // namespace stowage
