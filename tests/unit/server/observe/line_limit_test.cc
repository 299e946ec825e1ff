#include "server/observe/line_limit.h"

#include <gtest/gtest.h>

#include <optional>

namespace stowage {
namespace {

using std::chrono::milliseconds;

TEST(LineLimit, AdmitsALineOfEachKindASecond) {
  LineLimit limit;
  const LineLimit::Clock::time_point begin = LineLimit::Clock::now();
  EXPECT_EQ(limit.Admit("a", begin), 1);
  EXPECT_EQ(limit.Admit("a", begin), std::nullopt);
  EXPECT_EQ(limit.Admit("b", begin), 1);
  EXPECT_EQ(limit.Admit("a", begin + milliseconds(999)), std::nullopt);
  EXPECT_EQ(limit.Admit("a", begin + milliseconds(1000)), 3);
  EXPECT_EQ(limit.Admit("a", begin + milliseconds(2000)), 1);
}

}  // namespace
}  // namespace stowage
