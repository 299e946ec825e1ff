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
using testing::Not;

// A line of comment. Built here, since the script reads this file as well.
std::string Comment(const std::string& text) { return absl::StrCat("/", "/ ", text, "\n"); }

constexpr const char* kGraphBegin =
    "<!-- deploy/dev/layers --update writes the lines from here -->";
constexpr const char* kGraphEnd = "<!-- to here -->";

// A repository with the scripts and the files that a test adds.
class Layers : public testing::Test {
 protected:
  Layers() {
    std::filesystem::create_directories(folder_.Path("deploy/dev"));
    for (const char* script : {"deploy/dev/layers", "deploy/dev/imports.py",
                               "deploy/dev/include_graph.py", "deploy/dev/messages"}) {
      std::filesystem::copy_file(absl::StrCat(STOWAGE_DEPLOY, "/../", script),
                                 folder_.Path(script));
    }
    const ProgramResult made =
        RunProgram({"/usr/bin/env", "git", "init", "--quiet", folder_.Path("")});
    EXPECT_EQ(made.exit_code, 0) << made;
    // What every test has: a place for the graph, a document with a heading, and two folders in
    // their order.
    Add("README.md", absl::StrCat(kGraphBegin, "\n", kGraphEnd, "\n"));
    Add("solver/README.md", "# The model\n\n## Memory\n\n**Least and most.** Both.\n");
    Add("solver/base/units.h", "// Units.\n");
    Add("solver/model/chain.h", "#include \"solver/base/units.h\"\n");
  }

  void Add(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.Path(path)).parent_path());
    folder_.Write(path, text);
  }

  // With the graph as the includes are, which most tests are not about.
  ProgramResult Check() const {
    return RunProgram({folder_.Path("deploy/dev/layers"), "--update"});
  }

  ProgramResult CheckWithGraph() const { return RunProgram({folder_.Path("deploy/dev/layers")}); }

  std::string Graph() const { return ReadFile(folder_.Path("README.md")); }

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
  Add("solver/base/time/timers.h", "#include <chrono>\n");
  Add("solver/base/time/stop.h", "#include \"solver/base/time/timers.h\"\n");
  EXPECT_EQ(Check().exit_code, 0);
  Add("solver/model/chain.cc", "#include \"solver/base/time/timers.h\"\n");
  ExpectReport(
      HasSubstr("solver/model may not include solver/base/time/timers.h, which is not pure"));
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

TEST_F(Layers, ReportACycleOfPythonModules) {
  Add("client/python/stowage/__init__.py", "");
  Add("client/python/stowage/codec.py", "def read():\n    from stowage.reader import parse\n");
  Add("client/python/stowage/reader.py", "import json\nfrom stowage import codec\n");
  ExpectReport(AllOf(HasSubstr("cycle between Python modules"),
                     HasSubstr("client/python/stowage/codec.py"),
                     HasSubstr("client/python/stowage/reader.py")));
}

TEST_F(Layers, AcceptPythonImportsForTypesAlone) {
  Add("client/python/stowage/codec.py",
      "from typing import TYPE_CHECKING\n"
      "if TYPE_CHECKING:\n    from stowage.reader import Reader\n");
  Add("client/python/stowage/reader.py", "import stowage.codec\n");
  EXPECT_EQ(Check().exit_code, 0);
}

TEST_F(Layers, ReportACycleOfTypeScriptModules) {
  Add("server/web/src/charts/chart.tsx", "import {\n  names,\n} from \"../names\";\n");
  Add("server/web/src/names.ts", "export { type Chart } from './charts/chart';\n");
  ExpectReport(AllOf(HasSubstr("cycle between TypeScript modules"),
                     HasSubstr("server/web/src/charts/chart.tsx"),
                     HasSubstr("server/web/src/names.ts")));
}

TEST_F(Layers, NameAFolderOfManyFilesWithoutAnError) {
  for (int number = 1; number <= 16; ++number) {
    Add(absl::StrCat("solver/model/stage_", number, ".h"), "// A stage.\n");
    if (number == 14) {
      EXPECT_EQ(Check().out, "") << "with chain.h these are 15";
    }
  }
  const ProgramResult result = Check();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr("note: solver/model has 17 files or pairs"));
}

TEST_F(Layers, WriteTheGraphOfTheIncludes) {
  EXPECT_EQ(Check().exit_code, 0);
  EXPECT_THAT(Graph(),
              AllOf(HasSubstr("```mermaid\ngraph TD\n"), HasSubstr("    solver_base[\"base\"]\n"),
                    HasSubstr("\n  solver_model --> solver_base\n```\n")));
}

TEST_F(Layers, LeaveOutOfTheGraphWhatFollowsFromOtherIncludes) {
  Add("solver/simulator/time.cc",
      "#include \"solver/base/units.h\"\n#include \"solver/model/chain.h\"\n");
  EXPECT_EQ(Check().exit_code, 0);
  EXPECT_THAT(Graph(), AllOf(HasSubstr("solver_simulator --> solver_model\n"),
                             Not(HasSubstr("solver_simulator --> solver_base"))));
}

TEST_F(Layers, DrawDeepFoldersAsTheOneAboveThem) {
  Add("solver/algorithms/flat/flat.cc", "#include \"solver/model/chain.h\"\n");
  EXPECT_EQ(Check().exit_code, 0);
  EXPECT_THAT(Graph(), AllOf(HasSubstr("solver_algorithms --> solver_model\n"),
                             Not(HasSubstr("solver_algorithms_flat"))));
}

// server/cache/tiers includes server/redis, which includes server/cache by way of others.
TEST_F(Layers, DrawADeepFolderByItselfWhereTheGraphWouldHaveACycle) {
  Add("server/cache/tiers/redis.cc", "#include \"server/redis/nodes.h\"\n");
  Add("server/redis/nodes.h", "#include \"server/net/stream.h\"\n");
  Add("server/net/stream.h", "#include \"server/engine/engine.h\"\n");
  Add("server/engine/engine.h", "#include \"server/cache/keys.h\"\n");
  EXPECT_EQ(Check().exit_code, 0);
  EXPECT_THAT(Graph(), AllOf(HasSubstr("server_cache_tiers --> server_redis\n"),
                             HasSubstr("server_engine --> server_cache\n")));
}

TEST_F(Layers, ReportAGraphThatIsStaleOrHasNoPlace) {
  EXPECT_EQ(Check().exit_code, 0);
  EXPECT_EQ(CheckWithGraph().exit_code, 0);
  Add("solver/simulator/time.cc", "#include \"solver/model/chain.h\"\n");
  const ProgramResult stale = CheckWithGraph();
  EXPECT_EQ(stale.exit_code, 1) << stale;
  EXPECT_THAT(stale.out, HasSubstr("README.md: the graph is not that of the includes; "
                                   "deploy/dev/layers --update writes it again"));
  Add("README.md", kGraphBegin);
  ExpectReport(HasSubstr("README.md: lacks the line <!-- to here -->"));
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
  Add("server/rpc/messages/status.cc", Comment("status.message() == \"a word\"") +
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
