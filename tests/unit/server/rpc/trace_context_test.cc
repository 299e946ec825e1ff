#include "server/rpc/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace stowage {
namespace {

constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";

TEST(TraceIdOf, ReadsTheTraceOfAValidHeader) {
  EXPECT_EQ(TraceIdOf("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), kTrace);
  EXPECT_EQ(TraceIdOf("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), kTrace);
  EXPECT_EQ(TraceIdOf("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"), kTrace);
}

TEST(TraceIdOf, IsEmptyForAllElse) {
  for (const char* bad : {"", "00", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                          "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                          "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
                          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
                          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                          "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                          "00 0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                          "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more"}) {
    EXPECT_EQ(TraceIdOf(bad), "") << bad;
  }
}

}  // namespace
}  // namespace stowage
