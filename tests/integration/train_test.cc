// stowage-train as its users run it, with a small network.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <regex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ProgramResult Train(std::vector<std::string> flags) {
  std::vector<std::string> argv = {
      Program("stowage-train"), "--batch", "2", "--image", "64", "--steps", "1"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  return RunProgram(argv);
}

// What the table says in a column, from the right: 0 is the loss, 2 the peak.
std::string Cell(const std::string& out, const std::string& row, int from_right) {
  const std::regex line("\n +" + row + " {2,}([^\n]*)\n");
  std::smatch match;
  if (!std::regex_search(out, match, line)) return "";
  const std::string cells = match[1];
  const std::regex gap(" {2,}");
  const std::vector<std::string> all(
      std::sregex_token_iterator(cells.begin(), cells.end(), gap, -1),
      std::sregex_token_iterator());
  return all[all.size() - 1 - static_cast<size_t>(from_right)];
}

TEST(Train, TrainsAsPlainTrainingDoesWithAServersSchedule) {
  ServerProcess server;
  const TempFolder folder;
  const std::string trace = folder.Path("trace.json");
  const std::string chain = folder.Path("chain.json");
  const ProgramResult result =
      Train({"--memory", "30%", "--server", server.address(), "--job", "test-17", "--trace", trace,
             "--chain-output", chain, "--verify"});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, AllOf(HasSubstr("resnet18, batch 2: 10 stages"),
                                HasSubstr("from " + server.address()),
                                HasSubstr(" recomputations had the outputs of their first runs"),
                                HasSubstr("within noise")));
  EXPECT_THAT(result.err, HasSubstr("reported to the server"));
  const std::string loss = Cell(result.out, "plain", 0);
  EXPECT_NE(loss, "");
  EXPECT_EQ(Cell(result.out, "segments", 0), loss) << result;
  EXPECT_EQ(Cell(result.out, "stowage", 0), loss) << result;
  // Peaks of the right size: their error has a digit before the point.
  EXPECT_TRUE(std::regex_search(result.out, std::regex("peak [+-][0-4]\\.[0-9] %"))) << result;
  EXPECT_THAT(server.WaitForLogLine({"event=execution"}),
              AllOf(HasSubstr("job=test-17"), HasSubstr("fingerprint=")));

  EXPECT_GT(nlohmann::json::parse(ReadFile(trace))["traceEvents"].size(), 60);
  const ProgramResult solved =
      RunProgram({Program("stowage"), "solve", "--chain", chain, "--memory", "30%", "--local"});
  EXPECT_EQ(solved.exit_code, 0) << solved;
}

TEST(Train, TrainsWithoutAServer) {
  const ProgramResult result = Train({"--memory", "50%", "--server", "127.0.0.1:1", "--patience",
                                      "100ms", "--no-compare", "--offload"});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, AllOf(HasSubstr("solved here"), Not(HasSubstr("plain  "))));
  EXPECT_THAT(result.err, AllOf(HasSubstr("measuring the link to the host"),
                                HasSubstr("note: no answer from a server at 127.0.0.1:1"),
                                HasSubstr("note: not reported")));
}

TEST(Train, TrainsATransformerLocally) {
  const ProgramResult result =
      Train({"--network", "gpt2", "--layers", "3", "--width", "64", "--sequence", "32",
             "--vocabulary", "100", "--memory", "20%", "--local"});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(Cell(result.out, "stowage", 0), Cell(result.out, "plain", 0)) << result;
  EXPECT_EQ(Cell(result.out, "segments", 0), Cell(result.out, "plain", 0)) << result;
  EXPECT_THAT(result.out, HasSubstr("\nlosses: equal to the bit\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("report")));
}

TEST(Train, TrainsPlainlyWhereThatFits) {
  const TempFolder folder;
  const ProgramResult result = Train({"--local", "--trace", folder.Path("trace.json")});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr("plain training, which fits"));
  EXPECT_THAT(result.err, HasSubstr("note: --trace: a step is plain training"));
}

// Resident memory of the largest process that has ended so far, libraries and heap included.
int64_t LargestProcessBytes() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  constexpr int64_t kUnit = 1024;
  return usage.ru_maxrss * kUnit;
}

TEST(Train, TakesLessResidentMemoryThanPlainTraining) {
  if (LargestProcessBytes() > 0) GTEST_SKIP() << "other programs have run before";
  const auto train = [](const std::string& memory) {
    return Train({"--network", "gpt2", "--layers", "6", "--width", "256", "--sequence", "256",
                  "--vocabulary", "1000", "--local", "--no-compare", "--memory", memory});
  };
  const ProgramResult scheduled = train("10%");
  ASSERT_EQ(scheduled.exit_code, 0) << scheduled;
  EXPECT_THAT(scheduled.out, HasSubstr(" stages recomputed"));
  const int64_t scheduled_bytes = LargestProcessBytes();
  const ProgramResult plain = train("all");
  ASSERT_EQ(plain.exit_code, 0) << plain;
  EXPECT_THAT(plain.out, HasSubstr("plain training, which fits"));
  EXPECT_GT(LargestProcessBytes(), scheduled_bytes);
}

// Where times are noise, which modes the schedule has is, too; training is plain in all of them.
TEST(Train, TrainsATransformerInBothModes) {
  ServerProcess server;
  const TempFolder folder;
  const std::string chain = folder.Path("chain.json");
  const std::vector<std::string> flags = {
      "--network", "gpt2",         "--layers", "3",        "--width", "64",      "--sequence",
      "32",        "--vocabulary", "100",      "--memory", "60%",     "--graph", "--chain-output",
      chain,       "--verify"};
  for (const std::vector<std::string>& asks :
       {std::vector<std::string>{"--server", server.address()},
        std::vector<std::string>{"--local", "--solver", "mixed_mode"}}) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), asks.begin(), asks.end());
    const ProgramResult result = Train(all);
    ASSERT_EQ(result.exit_code, 0) << result;
    EXPECT_THAT(result.out,
                AllOf(HasSubstr("gpt2, batch 2: 8 stages"), Not(HasSubstr("as a block"))));
    EXPECT_EQ(Cell(result.out, "stowage", 0), Cell(result.out, "plain", 0)) << result;
    // Never more than predicted; less where the peak is a forward that saves, since a stage has one
    // temporary size of its forwards, whether they save or not.
    EXPECT_TRUE(std::regex_search(result.out, std::regex("peak (\\+[01]|-[0-9])\\.[0-9] %")))
        << result;
    const auto profile = nlohmann::json::parse(ReadFile(chain));
    EXPECT_EQ(profile["stages"][2]["fusion_group"], "h.0");
    EXPECT_FALSE(profile["stages"][2]["graph"].empty());
  }
}

TEST(Train, SaysHowMuchMemoryWouldDo) {
  const ProgramResult result = Train({"--memory", "1KB", "--local"});
  EXPECT_EQ(result.exit_code, 2) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr("no schedule fits within memory = 1000 B"),
                                HasSubstr("are the least that does")));
}

TEST(Train, NamesTheFlagThatIsWrong) {
  const auto error = [](std::vector<std::string> flags) {
    const ProgramResult result = Train(std::move(flags));
    EXPECT_EQ(result.exit_code, 1) << result;
    return result.err;
  };
  EXPECT_THAT(error({"--network", "resnet19"}), HasSubstr("--network: resnet19 not in"));
  EXPECT_THAT(error({"--solver", "fastest"}),
              HasSubstr("solver: 'fastest' is not known; choose one of auto, "));
  EXPECT_THAT(error({"--device", "tpu"}), HasSubstr("--device: 'tpu' is no device"));
  EXPECT_THAT(error({"--width", "100"}), HasSubstr("--width: must be a multiple of 64"));
  EXPECT_THAT(error({"--memory", "lots", "--local"}), HasSubstr("memory: 'lots' is"));
  EXPECT_THAT(error({"--patience", "soon"}), HasSubstr("--patience: "));
  EXPECT_THAT(error({"--trace", "/nowhere/step.json"}),
              HasSubstr("--trace: cannot write /nowhere/step.json: No such file or directory"));
}

}  // namespace
}  // namespace stowage
