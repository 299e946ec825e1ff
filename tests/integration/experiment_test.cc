// stowage experiment as people run it: what is in its files, and what becomes of a sweep that meets
// an obstacle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage::experiment_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr int kError = 1;
constexpr int kInfeasible = 2;

// Three equal stages: storing everything takes 120 bytes and 9 seconds, no schedule less than 60
// bytes, and rotor's none less than 70.
constexpr const char* kSmallChain = R"({
  "name": "small",
  "input_bytes": 10,
  "stages": [
    {"name": "a", "forward_seconds": 1, "backward_seconds": 2, "output_bytes": 10, "saved_bytes": 30},
    {"name": "b", "forward_seconds": 1, "backward_seconds": 2, "output_bytes": 10, "saved_bytes": 30},
    {"name": "c", "forward_seconds": 1, "backward_seconds": 2, "output_bytes": 10, "saved_bytes": 30}
  ]
})";

// A row of a CSV file by column.
using Row = std::map<std::string, std::string>;

std::vector<Row> ReadRows(const std::string& path) {
  std::vector<std::string> lines = absl::StrSplit(ReadFile(path), '\n', absl::SkipEmpty());
  const std::vector<std::string> columns = absl::StrSplit(lines.at(0), ',');
  std::vector<Row> rows;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = absl::StrSplit(lines[i], ',');
    EXPECT_EQ(cells.size(), columns.size()) << lines[i];
    Row& row = rows.emplace_back();
    for (size_t j = 0; j < std::min(cells.size(), columns.size()); ++j) row[columns[j]] = cells[j];
  }
  return rows;
}

std::vector<std::string> ColumnOf(const std::vector<Row>& rows, const std::string& name) {
  std::vector<std::string> cells;
  cells.reserve(rows.size());
  for (const Row& row : rows) cells.push_back(row.at(name));
  return cells;
}

// The lines of a CSV file without the last cell, the only one that differs from run to run.
std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines = absl::StrSplit(ReadFile(path), '\n', absl::SkipEmpty());
  for (std::string& line : lines) line.resize(line.rfind(','));
  return lines;
}

class ExperimentCommand : public testing::Test {
 protected:
  // With the small chain, and the folder as output.
  ProgramResult Experiment(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), chain_);
    return ExperimentOn(std::move(flags));
  }
  ProgramResult ExperimentOn(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {Program("stowage"), "experiment"});
    arguments.insert(arguments.end(), {"--output", folder_.Path("out")});
    return RunProgram(arguments);
  }
  std::string Output(const std::string& name) const { return folder_.Path("out/" + name); }
  std::vector<Row> Rows(const std::string& name) const { return ReadRows(Output(name)); }

  const TempFolder folder_;
  const std::string chain_ = folder_.Write("small.json", kSmallChain);
};

TEST_F(ExperimentCommand, RecordsEveryAnswer) {
  const ProgramResult result =
      Experiment({"--alphas", "0,0.5,1", "--solvers", "rotor,store_all", "--half-duplex",
                  "--transfer-latency", "10us", "--prefetch-bandwidth", "6GB/s"});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(
      LinesOf(Output("sweep.csv")),
      ElementsAre(
          "network,stages,alpha,memory_bytes,offload_gb_per_second,prefetch_gb_per_second,"
          "transfer_latency_seconds,half_duplex,host_memory_bytes,solver,outcome,schedule_of,"
          "makespan_seconds,sequential_seconds,overhead,transfer_bound_seconds,ratio,"
          "peak_memory_bytes,peak_host_bytes,recompute_seconds,idle_seconds",
          "small,3,0,60,12,6,1e-05,true,0,rotor,INFEASIBLE,,,9,,9,,,,,",
          "small,3,0,60,12,6,1e-05,true,0,store_all,INFEASIBLE,,,9,,9,,,,,",
          "small,3,0.5,90,12,6,1e-05,true,0,rotor,OPTIMAL,rotor,11,9,0.222222222222,9,"
          "1.22222222222,80,0,2,0",
          "small,3,0.5,90,12,6,1e-05,true,0,store_all,INFEASIBLE,,,9,,9,,,,,",
          "small,3,1,120,12,6,1e-05,true,0,rotor,OPTIMAL,rotor,9,9,0,9,1,120,0,0,0",
          "small,3,1,120,12,6,1e-05,true,0,store_all,OPTIMAL,store_all,9,9,0,9,1,120,0,0,0"));
}

TEST_F(ExperimentCommand, SaysWhatItDoesAndWhatCameOut) {
  const ProgramResult result = Experiment({"--alphas", "0,0.5,1", "--solvers", "rotor,store_all"});
  EXPECT_EQ(result.out,
            absl::StrCat("sweep: 1 network, 3 budgets, 1 bandwidth, 2 solvers\n"
                         "  solver     points  feasible  below +20 %  mean overhead  of rotor's"
                         "  wins\n"
                         "  rotor           3         2            1         +0.0 %           -"
                         "     2\n"
                         "  store_all       3         1            1         +0.0 %           -"
                         "     1\n"
                         "  mean overhead: of the 1 of 3 points that every solver has a schedule "
                         "for; wins: nobody was faster\n"
                         "  written: ",
                         Output("sweep.csv"), "\n"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 6) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr("[1/6] small, alpha 0, 12 GB/s, rotor: INFEASIBLE"),
                                HasSubstr("[3/6] small, alpha 0.5, 12 GB/s, rotor: +22.2 %, ")));
  EXPECT_EQ(Experiment({"--alphas", "1", "--quiet"}).err, "");
}

TEST_F(ExperimentCommand, GivesTheSameRowsTwice) {
  const auto rows = [this] {
    EXPECT_EQ(Experiment({"--bandwidths", "12,24"}).exit_code, 0);
    return LinesOf(Output("sweep.csv"));
  };
  const std::vector<std::string> first = rows();
  EXPECT_EQ(first, rows());
  for (const auto& entry : std::filesystem::directory_iterator(folder_.Path("out"))) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr("partial")));
  }
}

TEST_F(ExperimentCommand, BudgetsAreThoseOfSolve) {
  const std::string resnet = ProfilePath("torchvision-resnet101-32-224");
  ASSERT_EQ(ExperimentOn({resnet, "--alphas", "0.07,0.2", "--solvers", "rotor"}).exit_code, 0);
  const std::vector<std::string> budgets = ColumnOf(Rows("sweep.csv"), "memory_bytes");
  const auto solve = [&resnet](const std::string& memory) {
    return RunProgram({Program("stowage"), "solve", "--local", "--chain", resnet, "--memory",
                       memory, "--solver", "rotor", "--format", "json"})
        .out;
  };
  ASSERT_EQ(budgets.size(), 2U);
  EXPECT_THAT(solve("7%"), HasSubstr(absl::StrCat("\"memory_bytes\": \"", budgets[0], "\"")));
  EXPECT_THAT(solve("20%"), HasSubstr(absl::StrCat("\"memory_bytes\": \"", budgets[1], "\"")));
}

TEST_F(ExperimentCommand, DividesWhatStoringEverythingTakes) {
  const ProgramResult result =
      Experiment({"--reductions", "1,1.5,4", "--solvers", "rotor"});  // of 120 bytes
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.err, HasSubstr("small, 1/1.5, 12 GB/s, rotor: "));
  const std::vector<Row> rows = Rows("sweep.csv");
  EXPECT_THAT(ColumnOf(rows, "memory_bytes"), ElementsAre("120", "80", "30"));
  EXPECT_THAT(ColumnOf(rows, "alpha"), ElementsAre("1", "0.333333333333", "-0.5"));
  EXPECT_EQ(rows[2].at("outcome"), "INFEASIBLE");
}

TEST_F(ExperimentCommand, DoesFigure2AsThePaper) {
  const std::string second = folder_.Write("second.json", kSmallChain);
  const ProgramResult result = ExperimentOn({"--figure", "2", chain_, second});
  ASSERT_EQ(result.exit_code, 0) << result;
  const std::vector<Row> rows = Rows("figure2.csv");
  const std::vector<std::string> solvers = ColumnOf(rows, "solver");
  const auto rotors = std::count(solvers.begin(), solvers.end(), "rotor");
  EXPECT_EQ(rotors, 2 * 21);
  EXPECT_EQ(std::count(solvers.begin(), solvers.end(), "auto"), rotors);
  EXPECT_THAT(ColumnOf(rows, "offload_gb_per_second"), Each("12"));
  EXPECT_EQ(rows.front().at("alpha"), "0");
  EXPECT_EQ(rows.back().at("alpha"), "1");
  EXPECT_EQ(rows.front().at("network"), "small");
  EXPECT_EQ(rows.back().at("network"), "second");
}

TEST_F(ExperimentCommand, DoesFigure3AsThePaper) {
  const ProgramResult result = Experiment({"--figure", "3", "--solvers", "rotor"});
  ASSERT_EQ(result.exit_code, 0) << result;
  const std::vector<Row> rows = Rows("figure3.csv");
  EXPECT_THAT(ColumnOf(rows, "alpha"), Each("0.2"));
  EXPECT_THAT(
      ColumnOf(rows, "offload_gb_per_second"),
      ElementsAre("12", "14", "16", "18", "20", "22", "24", "26", "28", "30", "32", "34", "36"));
  EXPECT_THAT(ColumnOf(rows, "makespan_seconds"), Each(rows[0].at("makespan_seconds")));
}

TEST_F(ExperimentCommand, ComparesWithTheBoundOfTransfers) {
  const ProgramResult result = ExperimentOn({ProfilePath("torchvision-resnet50-16-500"), "--figure",
                                             "ratio", "--solvers", "rotor", "--alphas", "0.2,1"});
  ASSERT_EQ(result.exit_code, 0) << result;
  const std::vector<Row> rows = Rows("ratio.csv");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("offload_gb_per_second"), "12.2");
  // Transfers alone would take longer than recomputing.
  EXPECT_GT(std::stod(rows[0].at("transfer_bound_seconds")),
            std::stod(rows[0].at("makespan_seconds")));
  EXPECT_EQ(rows[1].at("transfer_bound_seconds"), rows[1].at("sequential_seconds"));
  EXPECT_EQ(rows[1].at("ratio"), "1");
}

TEST_F(ExperimentCommand, WritesAPageOfEveryAnswer) {
  const std::string page = folder_.Path("report.html");
  const ProgramResult result = Experiment(
      {"--figure", "2", "--alphas", "0,0.5,1", "--solvers", "rotor,store_all", "--html", page});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr(absl::StrCat(Output("figure2.csv"), ", ", page, "\n")));
  EXPECT_THAT(
      ReadFile(page),
      AllOf(HasSubstr("\"experiment\":{\"name\":\"figure2\""), HasSubstr("\"common_points\":\"1\""),
            HasSubstr("\"outcome\":\"INFEASIBLE\""), HasSubstr("\"makespan_seconds\":11")));
  const ProgramResult refused = Experiment({"--alphas", "1", "--html", folder_.Path("no/a.html")});
  EXPECT_EQ(refused.exit_code, kError);
  EXPECT_THAT(refused.err, HasSubstr("stowage: --html: "));
  EXPECT_THAT(refused.out, HasSubstr(absl::StrCat("written: ", Output("sweep.csv"), "\n")));
}

TEST_F(ExperimentCommand, NothingFeasibleIsExitCodeTwo) {
  const ProgramResult result = Experiment({"--alphas", "0,0.5", "--solvers", "store_all"});
  EXPECT_EQ(result.exit_code, kInfeasible) << result;
  EXPECT_THAT(ColumnOf(Rows("sweep.csv"), "outcome"), Each("INFEASIBLE"));
}

TEST_F(ExperimentCommand, GoesOnAfterASolveThatIsTooLargeAndSaysSo) {
  const ProgramResult result =
      ExperimentOn({ProfilePath("torchvision-resnet101-32-224"), chain_, "--alphas", "0.5",
                    "--solvers", "rotor", "--solve-memory", "1MiB"});
  EXPECT_EQ(result.exit_code, kError);
  EXPECT_THAT(ColumnOf(Rows("sweep.csv"), "outcome"), ElementsAre("RESOURCE_EXHAUSTED", "OPTIMAL"));
  EXPECT_THAT(result.out, HasSubstr("rotor        2         1"));
  EXPECT_THAT(result.err,
              HasSubstr("\nstowage: 1 of 2 points have no answer; the first: "
                        "torchvision-resnet101-32-224, alpha 0.5, 12 GB/s, rotor: rotor would"));
}

TEST_F(ExperimentCommand, ASolveThatTakesTooLongIsARow) {
  const ProgramResult result =
      ExperimentOn({ProfilePath("preact-resnet1001-8-224"), "--alphas", "0.5", "--solvers", "rotor",
                    "--slots", "20000", "--solve-memory", "8GiB", "--timeout", "100ms"});
  EXPECT_EQ(result.exit_code, kError);
  EXPECT_THAT(ColumnOf(Rows("sweep.csv"), "outcome"), ElementsAre("DEADLINE_EXCEEDED"));
  EXPECT_THAT(result.err, AllOf(HasSubstr("no answer within 0.1 s"), HasSubstr("--timeout")));
}

// As if it had been interrupted, but that it is told: the name that it wants at the end is taken.
TEST_F(ExperimentCommand, LeavesItsRowsWhereItCannotFinish) {
  std::filesystem::create_directories(Output("sweep.csv/in the way"));
  const ProgramResult result = Experiment({"--alphas", "0.5,1", "--solvers", "rotor"});
  EXPECT_EQ(result.exit_code, kError);
  EXPECT_THAT(result.err, HasSubstr("stowage: --output: cannot write " + Output("sweep.csv")));
  EXPECT_THAT(ColumnOf(Rows("sweep.partial.csv"), "alpha"), ElementsAre("0.5", "1"));
}

TEST_F(ExperimentCommand, NamesOfFilesAreEscaped) {
  const std::string chain = folder_.Write("a,\"<b>.json", kSmallChain);
  ASSERT_EQ(ExperimentOn({chain, "--alphas", "0.5,1", "--solvers", "rotor"}).exit_code, 0);
  EXPECT_THAT(ReadFile(Output("sweep.csv")), HasSubstr("\n\"a,\"\"<b>\",3,"));
}

TEST_F(ExperimentCommand, ABadArgumentIsOneLineThatNamesIt) {
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> parts;
  };
  const Case cases[] = {
      {{}, {"chains is required"}},
      {{"/no/such/file.json"}, {"/no/such/file.json: No such file"}},
      {{chain_, chain_}, {"chains: ", "are both called small"}},
      {{chain_, "--figure", "5"}, {"--figure", "ratio"}},
      {{chain_, "--alphas", "40%"}, {"--alphas: '40%' is neither", "0.2,0.5"}},
      {{chain_, "--alphas", "0:1"}, {"--alphas: '0:1' is neither", "0:1:0.05"}},
      {{chain_, "--bandwidths", "12GB/s"}, {"--bandwidths: '12GB/s' is neither", "12:36:2"}},
      {{chain_, "--solvers", "rotor,rotter"},
       {"--solvers: 'rotter' is not known; choose one of auto, store_all"}},
      {{chain_, "--slots", "-1"}, {"--slots: is -1"}},
      {{chain_, "--solve-memory", "much"}, {"--solve-memory: 'much'"}},
      {{chain_, "--timeout", "0"}, {"--timeout: "}},
      {{chain_, "--prefetch-bandwidth", "fast"}, {"--prefetch-bandwidth: 'fast'", "12GB/s"}},
      {{chain_, "--transfer-latency", "soon"}, {"--transfer-latency: 'soon'", "10us"}},
  };
  for (const Case& bad : cases) {
    const ProgramResult result = ExperimentOn(bad.arguments);
    EXPECT_EQ(result.exit_code, kError) << result;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result;
    for (const std::string& part : bad.parts) EXPECT_THAT(result.err, HasSubstr(part));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("out")));  // what is wrong is said before
}

TEST_F(ExperimentCommand, AnOutputThatIsNoFolderIsAnError) {
  const ProgramResult result =
      RunProgram({Program("stowage"), "experiment", chain_, "--output", chain_});
  EXPECT_EQ(result.exit_code, kError);
  EXPECT_THAT(result.err, HasSubstr("stowage: --output: cannot create " + chain_));
}

}  // namespace
}  // namespace stowage::experiment_test
