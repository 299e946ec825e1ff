#include "server/redis/redis_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RedisUrl, NamesNodesOfACluster) {
  const auto url = ParseRedisUrl("redis://10.0.0.1,cache.example:7000,[2001:db8::1]:7001");
  ASSERT_THAT(url, IsOk());
  EXPECT_FALSE(url->has_tls);
  EXPECT_THAT(url->seeds, ElementsAre(RedisNode{"10.0.0.1", 6379}, RedisNode{"cache.example", 7000},
                                      RedisNode{"2001:db8::1", 7001}));
  EXPECT_EQ(ToText(url->seeds[2]), "[2001:db8::1]:7001");
  EXPECT_EQ(ToText(url->seeds[0]), "10.0.0.1:6379");
}

TEST(RedisUrl, WithASecondSHasTls) {
  const auto url = ParseRedisUrl("rediss://cache.example/");
  ASSERT_THAT(url, IsOk());
  EXPECT_TRUE(url->has_tls);
  EXPECT_THAT(url->seeds, ElementsAre(RedisNode{"cache.example", 6379}));
}

TEST(RedisUrl, SaysWhatIsWrong) {
  for (const char* text :
       {"", "10.0.0.1:6379", "http://10.0.0.1", "redis://", "redis://a,,b", "redis://a:0",
        "redis://a:65536", "redis://a:b", "redis://[::1", "redis://a/0", "redis://a b"}) {
    EXPECT_THAT(ParseRedisUrl(text),
                Fails(absl::StatusCode::kInvalidArgument, HasSubstr("redis://HOST:PORT")))
        << text;
  }
}

TEST(RedisUrl, HasNoPassword) {
  const auto url = ParseRedisUrl("redis://user:secret@10.0.0.1");
  EXPECT_THAT(url, Fails(absl::StatusCode::kInvalidArgument, HasSubstr("file")));
  EXPECT_THAT(url.status().message(), testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace stowage
