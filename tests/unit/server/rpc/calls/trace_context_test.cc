#include "server/rpc/calls/trace_context.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace stowage {
namespace {

constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kParent = "b7ad6b7169203331";

TEST(ParseTraceParent, ReadsAValidHeader) {
  for (const char* text : {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"}) {
    const std::optional<TraceParent> read = ParseTraceParent(text);
    ASSERT_TRUE(read.has_value()) << text;
    EXPECT_EQ(read->trace, kTrace);
    EXPECT_EQ(read->parent, kParent);
  }
}

// The other flags say nothing about it.
TEST(ParseTraceParent, IsSampledByTheLastBitOfTheFlags) {
  const auto is_sampled = [](const char* flags) {
    return ParseTraceParent(std::string("00-") + kTrace + "-" + kParent + "-" + flags)->is_sampled;
  };
  for (const char* flags : {"01", "03", "0b", "ff"}) EXPECT_TRUE(is_sampled(flags)) << flags;
  for (const char* flags : {"00", "02", "10", "fe"}) EXPECT_FALSE(is_sampled(flags)) << flags;
}

TEST(ParseTraceParent, IsNothingForAllElse) {
  for (const char* bad : {"", "00", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                          "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                          "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
                          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
                          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                          "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                          "00 0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                          "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more"}) {
    EXPECT_FALSE(ParseTraceParent(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace stowage
