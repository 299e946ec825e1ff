#include "server/net/allowed_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::Not;

TEST(AllowedHosts, AreAddressesNamesWithoutADotAndThoseItIsGiven) {
  const AllowedHosts hosts({"Metrics.Example", ""});
  for (const char* allowed :
       {"", "localhost", "localhost:50052", "LOCALHOST.", "127.0.0.1", "10.0.0.7:50052", "[::1]",
        "[2001:db8::7]:50052", "metrics.example", "METRICS.example.:80", "stowage:50052"}) {
    EXPECT_THAT(hosts.Check(allowed), IsOk()) << allowed;
  }
  for (const char* refused :
       {"rebound.example", "metrics.example.rebound.example", "localhost.rebound.example",
        "127.0.0.1.rebound.example:50052", "[rebound.example]", ":50052", "."}) {
    EXPECT_THAT(hosts.Check(refused), Not(IsOk())) << refused;
  }
}

TEST(AllowedHosts, SayWhichNameIsRefusedAndWhatToDo) {
  EXPECT_EQ(AllowedHosts({}).Check("Rebound.example:50052").message(),
            "host: this server is not known as \"rebound.example\"; use its address, or start it "
            "with --http-host rebound.example or with --http-token-file");
  EXPECT_LT(AllowedHosts({}).Check(std::string(10'000, 'a') + ".b").message().size(), 1'000U);
}

}  // namespace
}  // namespace stowage
