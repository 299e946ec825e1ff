#include "client/cli/experiment/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "solver/solve/catalog.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<double> Numbers(const std::string& text, double most = 1) {
  const auto numbers = ParseNumbers(text, most);
  EXPECT_TRUE(numbers.ok()) << numbers.status();
  return numbers.value_or(std::vector<double>());
}

std::string ErrorOf(const SweepFlags& flags) {
  return std::string(ReadSweep(flags).status().message());
}

TEST(ParseNumbers, TakesListsRangesAndBoth) {
  EXPECT_THAT(Numbers("0.2"), ElementsAre(0.2));
  EXPECT_THAT(Numbers("0.5,0.2"), ElementsAre(0.2, 0.5));
  EXPECT_THAT(Numbers("12:36:8", 100), ElementsAre(12, 20, 28, 36));
  EXPECT_THAT(Numbers("0:0.2:0.1,1,0.1"), ElementsAre(0, 0.1, 0.2, 1));
  EXPECT_THAT(Numbers("0:1:0.4"), ElementsAre(0, 0.4, 0.8));
  EXPECT_THAT(Numbers("0.5:0.5:1"), ElementsAre(0.5));
}

TEST(ParseNumbers, HasNoRoundingErrorsInRanges) {
  EXPECT_THAT(Numbers("0:1:0.1"), ElementsAre(0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1));
  EXPECT_EQ(Numbers("0:1:0.05").size(), 21U);
  EXPECT_EQ(Numbers("0.1:0.9:0.01").size(), 81U);
}

TEST(ParseNumbers, RefusesMalformedLists) {
  for (const char* text : {"", ",", "half", "40%", "-0.1", "1.5", "nan", "inf", "0:1", "0:1:0",
                           "0:1:-0.1", "1:0:0.1", "0:1:0.1:2", "0,,1", "0:2:0.1"}) {
    const auto numbers = ParseNumbers(text, 1);
    ASSERT_FALSE(numbers.ok()) << text;
    EXPECT_THAT(std::string(numbers.status().message()), HasSubstr("0:1:0.05")) << text;
  }
  EXPECT_THAT(std::string(ParseNumbers("0:1:0.0001", 1).status().message()),
              AllOf(HasSubstr("more than 1000 numbers"), HasSubstr("larger step")));
  EXPECT_FALSE(ParseNumbers("0:1:1e-300", 1).ok());
}

TEST(ReadSweep, UsesThePresetsOfThePapers) {
  const auto figure2 = ReadSweep({.figure = "2"});
  ASSERT_TRUE(figure2.ok()) << figure2.status();
  EXPECT_EQ(figure2->alphas.size(), 21U);
  EXPECT_THAT(figure2->bandwidths, ElementsAre(12));
  EXPECT_THAT(figure2->solvers, AllOf(Contains("rotor"), Contains("auto")));
  const auto figure3 = ReadSweep({.figure = "3"});
  ASSERT_TRUE(figure3.ok()) << figure3.status();
  EXPECT_THAT(figure3->alphas, ElementsAre(0.2));
  EXPECT_EQ(figure3->bandwidths.front(), 12);
  EXPECT_EQ(figure3->bandwidths.back(), 36);
  EXPECT_EQ(figure3->solvers, figure2->solvers);
}

TEST(ReadSweep, LetsFlagsOverrideThePreset) {
  const auto sweep =
      ReadSweep({.figure = "ratio", .alphas = "0.5", .bandwidths = "7", .solvers = "rotor, auto"});
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_THAT(sweep->alphas, ElementsAre(0.5));
  EXPECT_THAT(sweep->bandwidths, ElementsAre(7));
  EXPECT_THAT(sweep->solvers, ElementsAre("rotor", "auto"));
}

TEST(ReadSweep, TakesReductionsInPlaceOfAlphasOrBesideThem) {
  const auto alone = ReadSweep({.reductions = "2,4"});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_THAT(alone->alphas, ElementsAre());
  EXPECT_THAT(alone->reductions, ElementsAre(2, 4));
  const auto beside = ReadSweep({.alphas = "0.5", .reductions = "4"});
  ASSERT_TRUE(beside.ok()) << beside.status();
  EXPECT_THAT(beside->alphas, ElementsAre(0.5));
  EXPECT_EQ(beside->budgets(), 2U);
  EXPECT_THAT(ErrorOf({.reductions = "0.5,4"}), HasSubstr("--reductions: '0.5,4' has a number"));
}

TEST(ReadSweep, SkipsSolversThatDoNotTradeOrAreInsideOthers) {
  const auto sweep = ReadSweep({});
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_THAT(sweep->solvers, AllOf(Contains("auto"), Contains("periodic"), Contains("rotor"),
                                    Not(Contains("store_all")), Not(Contains("revolve"))));
  for (const std::string& solver : sweep->solvers) EXPECT_NE(FindSolver(solver), nullptr);
}

TEST(ReadSweep, NamesTheFlagThatIsWrong) {
  EXPECT_THAT(ErrorOf({.alphas = "40%"}),
              AllOf(HasSubstr("--alphas: '40%' is neither a number from 0 to 1 nor a range"),
                    HasSubstr("0.2,0.5")));
  EXPECT_THAT(ErrorOf({.bandwidths = "12GB/s"}),
              AllOf(HasSubstr("--bandwidths: '12GB/s' is neither"), HasSubstr("12:36:2")));
  EXPECT_THAT(ErrorOf({.solvers = "rotor,rotter"}),
              HasSubstr("--solvers: 'rotter' is not known; choose one of auto, store_all"));
  EXPECT_THAT(ErrorOf({.solvers = "rotor,"}), HasSubstr("--solvers: has an empty name"));
}

TEST(Experiments, HaveDistinctNames) {
  EXPECT_EQ(NameOf(ExperimentOf("")), "sweep");
  EXPECT_EQ(NameOf(ExperimentOf("2")), "figure2");
  EXPECT_EQ(NameOf(ExperimentOf("3")), "figure3");
  EXPECT_EQ(NameOf(ExperimentOf("ratio")), "ratio");
}

}  // namespace
}  // namespace stowage
