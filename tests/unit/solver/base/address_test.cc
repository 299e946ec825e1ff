#include "solver/base/address.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

TEST(CheckAddress, TakesHostAndPortAndUnixSockets) {
  for (const char* address :
       {"127.0.0.1:50051", "localhost:0", "[::1]:65535", "unix:/run/s.sock", "unix:s"}) {
    EXPECT_THAT(CheckAddress(address), IsOk()) << address;
  }
}

TEST(CheckAddress, RefusesWhatGrpcWouldMisread) {
  for (const char* address :
       {"", "localhost", "127.0.0.1", "::1", "::1:80", "[::1]", ":80", "host:", "host:x", "host:-1",
        "host:65536", "unix:", "[]:80", "[::1:80"}) {
    EXPECT_THAT(CheckAddress(address),
                Fails(absl::StatusCode::kInvalidArgument, testing::HasSubstr("host:port")))
        << address;
  }
}

TEST(IsLocal, IsOnlyWhatOtherMachinesCannotReach) {
  for (const char* address :
       {"127.0.0.1:50051", "127.8.9.10:0", "localhost:1", "[::1]:1", "unix:/run/s.sock"}) {
    EXPECT_TRUE(IsLocal(address)) << address;
  }
  for (const char* address : {"0.0.0.0:50051", "[::]:50051", "10.0.0.1:1", "128.0.0.1:1",
                              "example.org:1", "127.0.0.1.example.org:1"}) {
    EXPECT_FALSE(IsLocal(address)) << address;
  }
}

}  // namespace
}  // namespace stowage
