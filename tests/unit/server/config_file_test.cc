#include "server/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// A program with a few options, whose command line has been parsed.
struct Program {
  explicit Program(const std::string& command_line = "") {
    app.add_option("--threads", threads)->check(CLI::Range(1, 8));
    app.add_option("--grace", grace)->capture_default_str();
    app.add_option("--proxy", proxies);
    app.add_flag("--quiet", quiet);
    app.add_option("--config")->configurable(false);
    app.parse(command_line);
  }

  CLI::App app;
  int threads = 2;
  std::string grace = "30s";
  std::vector<std::string> proxies;
  bool quiet = false;
};

class ConfigFileTest : public testing::Test {
 protected:
  // The names of the options that were set.
  absl::StatusOr<std::vector<std::string>> Read(const std::string& text, Program& program) const {
    const auto options = ReadConfigFile(folder_.Write("server.toml", text), program.app);
    if (!options.ok()) return options.status();
    std::vector<std::string> names;
    for (const SetByFile& option : *options) names.push_back(option.name);
    return names;
  }
  void ExpectWrong(const std::string& text, int line, const std::string& what) const {
    Program program;
    EXPECT_THAT(Read(text, program),
                Fails(absl::StatusCode::kInvalidArgument,
                      StartsWith(absl::StrCat(folder_.Path("server.toml"), ":", line, ": ", what))))
        << text;
  }

  const TempFolder folder_;
};

TEST_F(ConfigFileTest, SetsOptionsByTheirNames) {
  Program program;
  const auto names = Read(
      "# of this machine\n"
      "threads = 4\n"
      "grace = \"1 min\"  # in quotes, because of the space\n"
      "proxy = [\"10.0.0.0/8\", \"unix:\"]\n"
      "quiet = true\n",
      program);
  ASSERT_THAT(names, IsOk());
  EXPECT_THAT(*names, ElementsAre("threads", "grace", "proxy", "quiet"));
  EXPECT_EQ(program.threads, 4);
  EXPECT_EQ(program.grace, "1 min");
  EXPECT_THAT(program.proxies, ElementsAre("10.0.0.0/8", "unix:"));
  EXPECT_TRUE(program.quiet);
}

TEST_F(ConfigFileTest, LeavesToTheCommandLineWhatThatSets) {
  Program program("--threads 3");
  const auto names = Read("threads = 4\ngrace = 5s\n", program);
  ASSERT_THAT(names, IsOk());
  EXPECT_THAT(*names, ElementsAre("grace"));
  EXPECT_EQ(program.threads, 3);
  EXPECT_EQ(program.grace, "5s");
}

TEST_F(ConfigFileTest, MayBeEmpty) {
  Program program;
  const auto names = Read("\n# nothing\n", program);
  ASSERT_THAT(names, IsOk());
  EXPECT_THAT(*names, IsEmpty());
}

TEST_F(ConfigFileTest, NamesTheFileAndTheKeyOfWhatIsWrong) {
  ExpectWrong("# a comment\n\nthread = 4\nthreads = 3\n", 3,
              "'thread' is no option that a file can set");
  ExpectWrong("--threads = 4\n", 1, "'--threads' is no option that a file can set");
  ExpectWrong("config = other.toml\n", 1, "'config' is no option that a file can set");
  ExpectWrong("grace = 5s\n  threads=9  # many\n", 2, "--threads: Value 9 not in range");
  ExpectWrong("threads = four\n", 1, "--threads: Value four not in range");
  ExpectWrong("grace = 5s\n[network]\nthreads = 4\n", 2,
              "section 'network': sections are not supported");
}

TEST_F(ConfigFileTest, RefusesASecondValue) {
  const char* what = "grace: has more than one value; set it once";
  ExpectWrong("grace = 5s\ngrace = 6s\n", 2, what);
  ExpectWrong("grace = 5s\nthreads = 4\ngrace = 6s\n", 3, what);
  ExpectWrong("grace = 5 s\n", 1, what);
  ExpectWrong("grace = 5s, 6s\n", 1, what);
}

TEST_F(ConfigFileTest, NamesAFileThatCannotBeRead) {
  Program program;
  EXPECT_THAT(ReadConfigFile(folder_.Path("none"), program.app),
              Fails(absl::StatusCode::kNotFound,
                    AllOf(HasSubstr("--config: "), HasSubstr("/none"), HasSubstr("No such file"))));
}

TEST_F(ConfigFileTest, TextsAreThoseOfFileCommandLineAndDefaults) {
  Program program("--proxy 10.0.0.1 10.0.0.2");
  ASSERT_THAT(Read("quiet = true\n", program), IsOk());
  EXPECT_THAT(OptionTexts(program.app),
              ElementsAre(OptionText{"threads", "default"}, OptionText{"grace", "30s"},
                          OptionText{"proxy", "10.0.0.1,10.0.0.2"}, OptionText{"quiet", "true"}));
}

}  // namespace
}  // namespace stowage
