#include "server/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  absl::StatusOr<std::vector<std::string>> Read(const std::string& text, Program& program) const {
    return ReadConfigFile(folder_.Write("server.toml", text), program.app);
  }
  void ExpectWrong(const std::string& text, const std::string& what) const {
    Program program;
    EXPECT_THAT(Read(text, program),
                Fails(absl::StatusCode::kInvalidArgument,
                      AllOf(HasSubstr(folder_.Path("server.toml") + ": "), HasSubstr(what))))
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
  ExpectWrong("thread = 4\n", "'thread' is no option that a file can set");
  ExpectWrong("--threads = 4\n", "'--threads' is no option that a file can set");
  ExpectWrong("config = other.toml\n", "'config' is no option that a file can set");
  ExpectWrong("threads = 9\n", "threads: Value 9 not in range");
  ExpectWrong("threads = four\n", "threads: Value four not in range");
  ExpectWrong("[network]\nthreads = 4\n", "section 'network': sections are not supported");
}

TEST_F(ConfigFileTest, RefusesASecondValue) {
  for (const char* text : {"grace = 5s\ngrace = 6s\n", "grace = 5s\nthreads = 4\ngrace = 6s\n",
                           "grace = 5 s\n", "grace = 5s, 6s\n"}) {
    ExpectWrong(text, "grace: has more than one value; set it once");
  }
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
