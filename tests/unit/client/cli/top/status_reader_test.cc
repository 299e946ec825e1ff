#include "client/cli/top/status_reader.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

// A port of this machine on which the kernel takes connections, and nobody answers.
class SilentPort {
 public:
  SilentPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, SOMAXCONN), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() { close(fd_); }
  int port() const { return port_; }

 private:
  const int fd_;
  int port_ = 0;
};

// The connection is shut down between its start and the request in some of the rounds: a SIGPIPE
// there would end this program.
TEST(StatusReader, IsDestroyedAtAnyInstantOfAFetch) {
  const SilentPort port;
  StatusTarget target;
  target.address = absl::StrCat("127.0.0.1:", port.port());
  for (int round = 0; round < 1000; ++round) {
    const absl::StatusOr<std::unique_ptr<StatusReader>> reader = StatusReader::Make(target);
    ASSERT_TRUE(reader.ok()) << reader.status();
    (*reader)->StartFetch(std::nullopt);
    std::this_thread::sleep_for(std::chrono::microseconds(round % 300));
  }
}

}  // namespace
}  // namespace stowage
