// The load generator, which is its own judge; here it judges a server that it knows nothing of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ProgramResult Load(std::vector<std::string> flags) {
  flags.insert(flags.begin(),
               {Program("stowage"), "load", ProfilePath("torchvision-resnet18-16-500"), "--solver",
                "rotor", "--concurrency", "4", "--duration", "500ms"});
  return RunProgram(flags);
}

TEST(Load, ChecksEveryAnswerAndSaysHowLongTheyTook) {
  ServerProcess server;
  const ProgramResult result = Load({"--server", server.address(), "--mix", "50,25,25"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, AllOf(HasSubstr("every one simulated, 0 wrong"), HasSubstr("SOLVED"),
                                HasSubstr("p99.9")));
}

TEST(Load, AsksAsOftenAsItIsToldTo) {
  ServerProcess server;
  const ProgramResult result =
      Load({"--server", server.address(), "--rate", "100", "--format", "json"});
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result;
  EXPECT_EQ(json["answers"], 50);
  EXPECT_EQ(json["wrong_answers"], 0);
}

TEST(Load, NamesAMixThatIsNone) {
  const ProgramResult result = Load({"--mix", "1,2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("--mix: '1,2' is not three shares"));
}

TEST(Load, SaysSoWhenNobodyAnswers) {
  const ProgramResult result = Load({"--server", "127.0.0.1:1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no answer from 127.0.0.1:1"));
}

}  // namespace
}  // namespace stowage
