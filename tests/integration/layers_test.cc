// deploy/dev/layers and messages on small repositories: each test plants one fault and reads the
// report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A line of comment. Built here, since the script reads this file as well.
std::string Comment(const std::string& text) { return absl::StrCat("/", "/ ", text, "\n"); }

// A repository with the scripts and the files that a test adds.
class Layers : public testing::Test {
 protected:
  Layers() {
    std::filesystem::create_directories(folder_.Path("deploy/dev"));
    for (const char* script : {"deploy/dev/layers", "deploy/dev/messages"}) {
      std::filesystem::copy_file(absl::StrCat(STOWAGE_DEPLOY, "/../", script),
                                 folder_.Path(script));
    }
    const ProgramResult made =
        RunProgram({"/usr/bin/env", "git", "init", "--quiet", folder_.Path("")});
    EXPECT_EQ(made.exit_code, 0) << made;
    // What every test has: a document with a heading, and two folders in their order.
    Add("solver/README.md", "# The model\n\n## Memory\n\n**Least and most.** Both.\n");
    Add("solver/base/units.h", "// Units.\n");
    Add("solver/model/chain.h", "#include \"solver/base/units.h\"\n");
  }

  void Add(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.Path(path)).parent_path());
    folder_.Write(path, text);
  }

  ProgramResult Check() const { return RunProgram({folder_.Path("deploy/dev/layers")}); }

  ProgramResult CheckMessages() const { return RunProgram({folder_.Path("deploy/dev/messages")}); }

  void ExpectReport(const testing::Matcher<const std::string&>& report) const {
    const ProgramResult result = Check();
    EXPECT_EQ(result.exit_code, 1) << result;
    EXPECT_THAT(result.out, report);
  }

 private:
  TempFolder folder_;
};

TEST_F(Layers, AcceptFoldersInTheirOrder) {
  const ProgramResult result = Check();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "");
}

TEST_F(Layers, ReportAnIncludeAgainstTheOrder) {
  Add("solver/base/mutex.h", "#include \"solver/model/platform.h\"\n");
  ExpectReport(
      HasSubstr("solver/base/mutex.h: solver/base may not include solver/model/platform.h"));
}

TEST_F(Layers, ReportAClockInASolver) {
  Add("solver/base/timers.h", "#include <chrono>\n");
  Add("solver/base/stop.h", "#include \"solver/base/timers.h\"\n");
  EXPECT_EQ(Check().exit_code, 0);
  Add("solver/model/chain.cc", "#include \"solver/base/timers.h\"\n");
  ExpectReport(HasSubstr("solver/model may not include solver/base/timers.h, which is not pure"));
}

TEST_F(Layers, ReportALibraryOutsideItsFolder) {
  Add("solver/model/chain.cc", "#include <grpcpp/grpcpp.h>\n");
  ExpectReport(HasSubstr("solver/model/chain.cc: solver/model may not include grpcpp/grpcpp.h"));
}

TEST_F(Layers, ReportAFolderThatTheyDoNotList) {
  Add("solver/misc/all.h", "#include <vector>\n");
  ExpectReport(HasSubstr("folder solver/misc is not in deploy/dev/layers"));
}

TEST_F(Layers, ReportACycleOfTwoFiles) {
  Add("solver/model/modes.h", "#include \"solver/model/stage.h\"\n");
  Add("solver/model/stage.cc", "#include \"solver/model/modes.h\"\n");
  ExpectReport(AllOf(HasSubstr("cycle between files"), HasSubstr("solver/model/modes"),
                     HasSubstr("solver/model/stage")));
}

TEST_F(Layers, ReportACycleOfThreeFiles) {
  Add("solver/model/a.h", "#include \"solver/model/b.h\"\n");
  Add("solver/model/b.h", "#include \"solver/model/c.h\"\n");
  Add("solver/model/c.h", "#include \"solver/model/a.h\"\n");
  ExpectReport(HasSubstr("cycle between files"));
}

TEST_F(Layers, ReportACycleOfFolders) {
  Add("server/cache/tier.h", "#include \"server/engine/engine.h\"\n");
  Add("server/engine/queue.h", "#include \"server/cache/keys.h\"\n");
  ExpectReport(AllOf(HasSubstr("cycle between folders"), HasSubstr("server/cache"),
                     HasSubstr("server/engine")));
}

TEST_F(Layers, ReportANameOfTwoTypes) {
  Add("client/agent/plan.h", "struct Command {\n");
  Add("client/cli/arguments.h", "using Command = int;\n");
  ExpectReport(HasSubstr("client/cli/arguments.h: Command is also a type of client/agent/plan.h"));
}

TEST_F(Layers, ReportACitedFileThatDoesNotExist) {
  Add("solver/model/schedule.h", Comment("As model.md has it."));
  ExpectReport(HasSubstr("solver/model/schedule.h: cites model.md, which does not exist"));
}

TEST_F(Layers, ReportACitedHeadingThatDoesNotExist) {
  Add("solver/model/schedule.h", Comment(R"(Rules: solver/README.md, "Time".)"));
  ExpectReport(HasSubstr("cites \"Time\" of solver/README.md, which has no such heading"));
}

TEST_F(Layers, AcceptCodesReasonsAndTextsThatArePassedOn) {
  Add("server/rpc/status.cc", Comment("status.message() == \"a word\"") +
                                  "if (ReasonOf(status) == kFull) Log(status.message());\n"
                                  "if (absl::StartsWith(address, \"unix:\")) return;\n");
  const ProgramResult result = CheckMessages();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "");
}

TEST_F(Layers, ReportComparisonsWithTheWordsOfAMessage) {
  for (const char* line : {"if (status.message() == kFull) return;\n",
                           "if (status().message().find(\"full\") > 0) return;\n",
                           "return absl::StartsWith(\n    status.error_message(), \"full\");\n",
                           "return absl::StrContains(note, \"was left out\");\n",
                           "return absl::StartsWith(best->solver, \"mixed_mode\");\n"}) {
    Add("client/lib/rpc/retry.cc", line);
    const ProgramResult result = CheckMessages();
    EXPECT_EQ(result.exit_code, 1) << line << result;
    EXPECT_THAT(result.out, HasSubstr("client/lib/rpc/retry.cc:"));
  }
}

TEST_F(Layers, AcceptCitedHeadingsAndBoldStarts) {
  Add("solver/model/schedule.h", Comment(R"(Rules: solver/README.md, "Memory" and)") +
                                     Comment(R"("Least and most". See chain.h.)"));
  const ProgramResult result = Check();
  EXPECT_EQ(result.exit_code, 0) << result;
}

}  // namespace
}  // namespace stowage
