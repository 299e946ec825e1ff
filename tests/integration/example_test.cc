// client/examples against a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>

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

TEST(Example, InCPrintsEventsAndTheAnswer) {
  const ProgramResult result = RunProgram({Program("stowage-example-c"), "40%"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr("\"budget_bytes\":\"19084083\""));
  EXPECT_THAT(result.out, HasSubstr("{\"kind\":\"BACKWARD\",\"stage\":1}"));
  const ProgramResult wrong = RunProgram({Program("stowage-example-c"), "much"});
  EXPECT_EQ(wrong.exit_code, 1) << wrong;
  EXPECT_THAT(wrong.out, HasSubstr("\"field\":\"budget\""));
}

TEST(Example, TrainsWithKernelsOfItsOwnInTheMemoryItIsGiven) {
  const ProgramResult result = RunProgram({Program("stowage-example-own-kernels"), "20"});
  EXPECT_EQ(result.exit_code, 0) << result;
  int64_t stored = 0, memory = 0, arena = 0;
  double losses[5] = {};
  ASSERT_EQ(
      std::sscanf(
          result.out.c_str(),
          "everything stored: an arena of %" SCNd64 " bytes, losses %*f %*f %*f %*f %*f\n"
          "within %" SCNd64 " bytes: an arena of %" SCNd64 " bytes, losses %lf %lf %lf %lf %lf",
          &stored, &memory, &arena, &losses[0], &losses[1], &losses[2], &losses[3], &losses[4]),
      8)
      << result;
  EXPECT_LT(memory, stored / 2);
  EXPECT_LE(arena, memory + memory / 50);
  EXPECT_LT(losses[4], losses[0] / 2) << "it learns";
}

TEST(Example, SaysThatNothingFits) {
  const ProgramResult result = RunProgram({Program("stowage-example-own-kernels"), "-5"});
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, HasSubstr("no schedule fits: allow more memory"));
}

}  // namespace
}  // namespace stowage
