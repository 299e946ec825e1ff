#include "client/lib/rpc/trace_parent.h"

#include <gtest/gtest.h>

#include <string>

namespace stowage {
namespace {

std::string Of(const char* value) {
  return TraceParent([value](const char* variable) {
    return std::string(variable) == "TRACEPARENT" ? value : nullptr;
  });
}

TEST(TraceParentTest, IsWhatTheEnvironmentSays) {
  const char* const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  EXPECT_EQ(Of(valid), valid);
}

TEST(TraceParentTest, IsNothingThatMetadataMayNotHave) {
  EXPECT_EQ(Of(nullptr), "");
  EXPECT_EQ(Of(""), "");
  EXPECT_EQ(Of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"), "");
  EXPECT_EQ(Of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\n"), "");
}

}  // namespace
}  // namespace stowage
