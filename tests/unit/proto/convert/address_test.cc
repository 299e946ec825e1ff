#include "proto/convert/address.h"

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

}  // namespace
}  // namespace stowage
