// The load generator, which is its own judge; here it judges a server that it knows nothing of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/integration/metrics.h"
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

// Tables of 16 MB and less, one after the other, on threads that each have memory of their own.
TEST(Load, LeavesNothingOfTheTablesOfSolvesInMemory) {
  constexpr int64_t kMaxMebibytes = 200;
  ServerProcess server({"--client-rate", "0", "--cache-memory", "32MiB", "--solve-memory", "128MiB",
                        "--all-solves-memory", "256MiB"});
  std::vector<std::string> command = {Program("stowage"), "load",  "--server",   server.address(),
                                      "--concurrency",    "32",    "--mix",      "50,40,10",
                                      "--solver",         "rotor", "--duration", "3s"};
  for (const char* profile :
       {"torchvision-resnet101-32-224", "pipedream-vgg16-128-224", "analytic-gpt2xl-4-1024",
        "preact-resnet1001-8-224", "torchvision-densenet161-16-500"}) {
    command.push_back(ProfilePath(profile));
  }
  EXPECT_EQ(RunProgram(command).exit_code, 0);
  if (!ServerIsSanitized()) {
    EXPECT_LE(OfProcess(server, "VmHWM") >> 10, kMaxMebibytes);
  }
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
