#include "server/security/redis_login.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "server/redis/cluster.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/redis_nodes.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

RedisCluster ClusterAt(const RedisNodes& nodes, const RedisLoginFiles& files) {
  return {ParseRedisUrl(nodes.Url())->seeds, [files] { return ReadRedisLogin(files); }};
}

absl::Status Ask(const RedisNodes& nodes, const RedisLoginFiles& files) {
  RedisCluster cluster = ClusterAt(nodes, files);
  return cluster.Call("k", {"SET", "k", "v"}, Clock::now() + kPatience).status();
}

TEST(RedisLogin, IsAPasswordOrAUserAndAPassword) {
  const TempFolder folder;
  const auto password = ReadRedisLogin({.user_file = folder.Write("one", "secret\n")});
  ASSERT_THAT(password, IsOk());
  EXPECT_EQ(password->user, "");
  EXPECT_EQ(password->password, "secret");
  const auto both = ReadRedisLogin({.user_file = folder.Write("two", "stowage secret\n")});
  ASSERT_THAT(both, IsOk());
  EXPECT_EQ(both->user, "stowage");
  EXPECT_EQ(both->password, "secret");
  for (const char* wrong : {"", "\n", "a b c"}) {
    EXPECT_THAT(ReadRedisLogin({.user_file = folder.Write("wrong", wrong)}),
                Fails(absl::StatusCode::kInvalidArgument, HasSubstr("one line")));
  }
  EXPECT_THAT(ReadRedisLogin({.user_file = folder.Path("none")}),
              Fails(absl::StatusCode::kNotFound, HasSubstr("none")));
}

TEST(RedisLogin, FollowsAPasswordThatIsChanged) {
  RedisNodes nodes(1, {"--requirepass", "first"});
  const TempFolder folder;
  const RedisLoginFiles files = {.user_file = folder.Write("user", "first")};
  RedisCluster cluster = ClusterAt(nodes, files);
  const auto call = [&] { return cluster.Call("k", {"GET", "k"}, Clock::now() + kPatience); };
  EXPECT_THAT(call(), IsOk());
  folder.Write("user", "second");
  EXPECT_THAT(call(), IsOk()) << "on the old connection";
  nodes.Ask(0, {"-a", "first", "CONFIG", "SET", "requirepass", "second"});
  nodes.Ask(0, {"-a", "second", "CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_THAT(call(), IsOk()) << "on a new one";
}

TEST(RedisLogin, EncryptsAndChecksTheCertificate) {
  Office office;
  const Pair authority = office.Authority("authority");
  const Pair own = office.Caller("stowage", authority);
  const std::string host = RedisNodes::Host();
  const Pair server = office.Server("redis", authority, host);
  const RedisNodes nodes(1, TlsRedisFlags(server, authority));
  const TlsFiles certificate = {.certificate = own.certificate, .key = own.key};
  EXPECT_THAT(
      Ask(nodes, {.has_tls = true, .authorities = authority.certificate, .own = certificate}),
      IsOk());
  EXPECT_THAT(Ask(nodes, {.has_tls = true, .authorities = authority.certificate}),
              Fails(absl::StatusCode::kUnavailable, testing::_))
      << "it asks for a certificate";
  const Pair stranger = office.Authority("stranger");
  EXPECT_THAT(
      Ask(nodes, {.has_tls = true, .authorities = stranger.certificate, .own = certificate}),
      Fails(absl::StatusCode::kUnavailable, HasSubstr("verify failed")));
  EXPECT_FALSE(Ask(nodes, {}).ok()) << "without TLS";
}

TEST(RedisLogin, DoesNotTakeTheCertificateOfAnotherHost) {
  Office office;
  const Pair authority = office.Authority("authority");
  const Pair own = office.Caller("stowage", authority);
  const RedisNodes nodes(1,
                         TlsRedisFlags(office.Server("redis", authority, "192.0.2.1"), authority));
  EXPECT_THAT(Ask(nodes, {.has_tls = true,
                          .authorities = authority.certificate,
                          .own = {.certificate = own.certificate, .key = own.key}}),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("verify failed")));
}

TEST(RedisLogin, NamesTheFileThatIsWrong) {
  const TempFolder folder;
  const std::string garbage = folder.Write("garbage", "no certificate");
  EXPECT_THAT(ReadRedisLogin({.has_tls = true, .authorities = garbage}),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr(garbage)));
  EXPECT_THAT(ReadRedisLogin({.has_tls = true, .authorities = folder.Path("none")}),
              Fails(absl::StatusCode::kNotFound, HasSubstr("none")));
}

}  // namespace
}  // namespace stowage
