#include "server/rpc/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>

#include "tests/integration/raw_client.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::chrono::seconds kPatience{60};

TEST(Listener, HandsConnectionsOver) {
  auto listener = Listener::Start("127.0.0.1:0", 1000, [](int fd) {
    EXPECT_EQ(write(fd, "hello", 5), 5);
    close(fd);
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_THAT((*listener)->address(), StartsWith("127.0.0.1:"));
  RawSocket socket((*listener)->address());
  EXPECT_EQ(socket.Receive(kPatience), "hello");
}

TEST(Listener, ClosesConnectionsBeyondTheLastDescriptor) {
  std::atomic<int> accepted = 0;
  // Descriptors below that are those of this test.
  auto listener = Listener::Start("127.0.0.1:0", 3, [&](int) { ++accepted; });
  ASSERT_TRUE(listener.ok()) << listener.status();
  for (int i = 0; i < 10; ++i) {
    RawSocket socket((*listener)->address());
    EXPECT_TRUE(socket.ClosedWithin(kPatience));
  }
  EXPECT_EQ(accepted, 0);
}

TEST(Listener, SaysWhyItCannot) {
  auto first = Listener::Start("127.0.0.1:0", 1000, [](int fd) { close(fd); });
  ASSERT_TRUE(first.ok());
  const auto refusal = [](const std::string& address) {
    const auto listener = Listener::Start(address, 1000, [](int fd) { close(fd); });
    EXPECT_FALSE(listener.ok());
    return std::string(listener.status().message());
  };
  EXPECT_THAT(
      refusal((*first)->address()),
      AllOf(HasSubstr((*first)->address()), HasSubstr("already in use"), HasSubstr("--listen")));
  EXPECT_THAT(refusal("no such host:1"), HasSubstr("write host:port"));
  EXPECT_THAT(refusal("unix:" + std::string(200, 'x')), HasSubstr("longer than 107 bytes"));
  EXPECT_THAT(refusal("unix:/no/such/folder/socket"), HasSubstr("check the directory"));
}

}  // namespace
}  // namespace stowage
