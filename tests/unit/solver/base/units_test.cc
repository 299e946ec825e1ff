#include "solver/base/units.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/rules.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;

TEST(ParseBytes, FollowsTheSharedRules) {
  for (const nlohmann::json& rule : RuleCases("sizes")) {
    const auto text = rule.at("text").get<std::string>();
    const absl::StatusOr<int64_t> bytes = ParseBytes(text);
    if (rule.at("bytes").is_null()) {
      EXPECT_THAT(bytes, Fails(absl::StatusCode::kInvalidArgument, HasSubstr("e.g. 4GiB"))) << text;
    } else {
      EXPECT_EQ(absl::StrCat(*bytes), rule.at("bytes").get<std::string>()) << text;
    }
  }
}

TEST(ParseBytesPerSecond, TakesRatesAndPlainNumbers) {
  EXPECT_EQ(*ParseBytesPerSecond("12GB/s"), 12e9);
  EXPECT_EQ(*ParseBytesPerSecond("1.5MiB/s"), 1.5 * 1024 * 1024);
  EXPECT_EQ(*ParseBytesPerSecond("1000"), 1000);
  for (const char* text : {"12GB", "12/s", "-1GB/s", "fast", "nan"}) {
    EXPECT_THAT(ParseBytesPerSecond(text),
                Fails(absl::StatusCode::kInvalidArgument, HasSubstr("12GB/s")))
        << text;
  }
}

TEST(ParseSeconds, TakesDurationsAndPlainSeconds) {
  EXPECT_EQ(*ParseSeconds("10us"), 10 * 1e-6);
  EXPECT_EQ(*ParseSeconds("3ms"), 3 * 1e-3);
  EXPECT_EQ(*ParseSeconds("2s"), 2);
  EXPECT_EQ(*ParseSeconds("0.25"), 0.25);
  for (const char* text : {"", "3 minutes", "-1s", "inf"}) {
    EXPECT_THAT(ParseSeconds(text), Fails(absl::StatusCode::kInvalidArgument, HasSubstr("10us")))
        << text;
  }
}

TEST(Format, PicksTheUnitThatReadsBest) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes((int64_t{1} << 30) - 1), "1.00 GiB");
  EXPECT_EQ(FormatSeconds(0), "0 s");
  EXPECT_EQ(FormatSeconds(0.1655), "165.5 ms");
  EXPECT_EQ(FormatSeconds(0.9999999), "1.000 s");
  EXPECT_EQ(FormatSeconds(0.0009999999), "1.0 ms");
  EXPECT_EQ(FormatSeconds(2.5), "2.500 s");
  EXPECT_EQ(FormatSeconds(12e-6), "12.0 us");
  EXPECT_EQ(FormatBytesPerSecond(12e9), "12.0 GB/s");
  EXPECT_EQ(FormatPercent(0.156), "15.6 %");
}

}  // namespace
}  // namespace stowage
