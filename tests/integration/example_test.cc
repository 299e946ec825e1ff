// client/examples against a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

TEST(Example, PrintsASchedule) {
  const ServerProcess server;
  const ProgramResult result = RunProgram({Program("stowage-example-solve"), server.address()});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr("FORWARD_SAVE 8\n"));
  EXPECT_THAT(result.out, EndsWith("BACKWARD 1\n"));
}

TEST(Example, SaysWhatIsWrong) {
  const ProgramResult result = RunProgram({Program("stowage-example-solve"), "127.0.0.1:1"});
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, HasSubstr("no answer from a server at 127.0.0.1:1"));
}

}  // namespace
}  // namespace stowage
