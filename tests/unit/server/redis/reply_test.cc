#include "server/redis/reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using Type = RedisReply::Type;

// The first reply in `bytes`, which come one at a time.
absl::StatusOr<std::optional<RedisReply>> Read(absl::string_view bytes) {
  ReplyReader reader;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (absl::Status fed = reader.Feed(bytes.substr(i, 1)); !fed.ok()) return fed;
    absl::StatusOr<std::optional<RedisReply>> next = reader.Next();
    if (!next.ok() || next->has_value()) return next;
  }
  return std::optional<RedisReply>();
}

TEST(ReplyReader, ReadsEveryType) {
  const std::string bytes = absl::StrCat("*5\r\n+OK\r\n:-7\r\n$3\r\na", std::string(1, '\0'),
                                         "b\r\n$-1\r\n*1\r\n-ERR no\r\n");
  const auto whole = Read(bytes);
  ASSERT_THAT(whole, IsOk());
  ASSERT_TRUE(whole->has_value());
  const std::vector<RedisReply>& elements = (*whole)->elements;
  ASSERT_EQ(elements.size(), 5);
  EXPECT_EQ(elements[0].type, Type::kStatus);
  EXPECT_EQ(elements[0].text, "OK");
  EXPECT_EQ(elements[1].integer, -7);
  EXPECT_EQ(elements[2].text, std::string("a\0b", 3));
  EXPECT_TRUE(elements[3].is_nil());
  EXPECT_EQ(elements[4].elements[0].error_code(), "ERR");
}

TEST(ReplyReader, ReadsOneReplyAfterAnother) {
  ReplyReader reader;
  ASSERT_THAT(reader.Feed("+a\r\n:2\r\n"), IsOk());
  EXPECT_EQ((*reader.Next())->text, "a");
  EXPECT_TRUE(reader.has_more());
  EXPECT_EQ((*reader.Next())->integer, 2);
  EXPECT_FALSE(reader.has_more());
  EXPECT_FALSE(reader.Next()->has_value());
}

TEST(ReplyReader, RefusesWhatNoRedisSends) {
  for (const char* text :
       {"HTTP/1.1 400 Bad Request\r\n", "$x\r\n", "*9999999999999\r\n", "*1000000\r\n", "\r\n\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
        "*1\r\n*1\r\n*1\r\n:1\r\n"}) {
    EXPECT_THAT(Read(text), Fails(absl::StatusCode::kDataLoss, testing::_)) << text;
  }
}

TEST(ReplyReader, LimitsTheElementsOfAllArraysTogether) {
  ReplyReader reader;
  absl::Status status = reader.Feed("*10\r\n");
  for (int i = 0; i < 10 && status.ok(); ++i) {
    status = reader.Feed("*20000\r\n");
    for (int j = 0; j < 20'000 && status.ok(); ++j) status = reader.Feed(":1\r\n");
    if (status.ok()) status = reader.Next().status();
  }
  EXPECT_THAT(status, Fails(absl::StatusCode::kDataLoss, testing::_));
}

TEST(ReplyReader, LimitsTheBytes) {
  ReplyReader reader;
  absl::Status status = reader.Feed("$9000000000\r\n");
  const std::string megabyte(1 << 20, 'x');
  int fed = 0;
  for (; status.ok() && fed < 100; ++fed) {
    status = reader.Feed(megabyte);
    if (status.ok()) status = reader.Next().status();
  }
  EXPECT_THAT(status, Fails(absl::StatusCode::kDataLoss, testing::_));
}

TEST(ReplyReader, TwoReadersDoNotShareTheirLimit) {
  ReplyReader first;
  ReplyReader second;
  const std::string half = absl::StrCat("*", ReplyReader::kMaxElements, "\r\n");
  EXPECT_THAT(first.Feed(half), IsOk());
  EXPECT_THAT(first.Next(), IsOk());
  EXPECT_THAT(second.Feed(half), IsOk());
  EXPECT_THAT(second.Next(), IsOk());
}

TEST(FormatCommand, CountsBytes) {
  EXPECT_EQ(FormatCommand({"SET", "key", "a\r\nb"}),
            "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$4\r\na\r\nb\r\n");
}

}  // namespace
}  // namespace stowage
