// What drawings look like as a whole is in tests/golden.
#include "client/cli/top/top_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "client/text/table.h"

namespace stowage {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Drawn(const TopView& view) { return PlainText(DrawTop(view, 80)); }

TEST(TopText, SaysThatThereIsNoAnswerAndForHowLong) {
  TopView view;
  view.status.set_ready(true);
  EXPECT_THAT(Drawn(view), Not(HasSubstr("NO ANSWER")));
  view.problem = "cannot connect";
  view.problem_seconds = 75;
  const std::vector<ScreenLine> lines = DrawTop(view, 80);
  EXPECT_THAT(lines[0].text, HasSubstr("NO ANSWER for 1 min 15 s: cannot connect; trying again"));
  EXPECT_EQ(lines[0].style, LineStyle::kAlarm);
}

TEST(TopText, SaysThatTheServerWasRestarted) {
  TopView view;
  EXPECT_THAT(Drawn(view), Not(HasSubstr("RESTARTED")));
  view.restarts = 2;
  view.status.set_uptime_seconds(7);
  EXPECT_THAT(Drawn(view), HasSubstr("RESTARTED 2 times while watched, last 7 s ago"));
}

TEST(TopText, HasNoControlCharactersFromTheServer) {
  TopView view;
  view.status.set_version("1\x1b[2J\n2");
  view.status.add_running()->set_solver("a\rb");
  view.status.add_caches()->set_name("c\nd");
  view.status.mutable_since_start()->add_calls()->set_method("x\ty");
  for (const ScreenLine& line : DrawTop(view, 80)) {
    EXPECT_EQ(line.text.find_first_of("\x1b\r\n\t"), std::string::npos) << line.text;
  }
}

TEST(TopText, SharesOfASolveThatAreNoneAreDrawnAsFullOrEmpty) {
  TopView view;
  for (const double fraction : {std::nan(""), -1.0, HUGE_VAL}) {
    view.status.add_running()->set_fraction(fraction);
  }
  const std::string drawn = Drawn(view);
  EXPECT_THAT(drawn, HasSubstr("░   0 %\n"));
  EXPECT_THAT(drawn, HasSubstr("█ 100 %\n"));
}

TEST(TopText, ACacheWithoutALimitIsInUseOrThereIsNone) {
  TopView view;
  view.status.add_caches()->set_name("disk");
  v1::CacheStatus* const shared = view.status.add_caches();
  shared->set_name("shared");
  shared->set_in_use(true);
  EXPECT_THAT(Drawn(view),
              HasSubstr("disk                    none\nshared                in use\n"));
}

TEST(Fit, TruncatesLinesBetweenCharacters) {
  const auto fit = Fit({{"abcdef"}, {"ab██ef"}, {"abc"}}, {.columns = 3, .lines = 5});
  EXPECT_EQ(fit[0].text, "abc");
  EXPECT_EQ(fit[1].text, "ab█");
  EXPECT_EQ(fit[2].text, "abc");
}

TEST(Fit, LeavesEmptyLinesOutFirst) {
  const std::vector<ScreenLine> lines = {{"a"}, {""}, {"b"}, {"c"}};
  EXPECT_EQ(PlainText(Fit(lines, {.lines = 4})), "a\n\nb\nc\n");
  EXPECT_EQ(PlainText(Fit(lines, {.lines = 3})), "a\nb\nc\n");
}

TEST(Fit, SaysHowManyLinesItLeftOut) {
  const auto fit = Fit({{"a"}, {"b"}, {"c"}, {"d"}}, {.lines = 2});
  EXPECT_EQ(PlainText(fit), "a\n… 3 more lines: make the terminal higher\n");
}

// Whatever the size of the terminal, a drawing fits it.
TEST(Fit, IsNeverLargerThanTheTerminal) {
  TopView view;
  for (int i = 0; i < 20; ++i) {
    v1::SolveProgress* const solve = view.status.add_running();
    solve->set_thread(i);
    solve->set_fraction(0.5);
  }
  for (int columns : {1, 7, 80, 113, 300}) {
    for (int lines : {1, 2, 24, 100}) {
      const auto fit = Fit(DrawTop(view, columns), {.columns = columns, .lines = lines});
      EXPECT_LE(fit.size(), static_cast<size_t>(lines));
      for (const ScreenLine& line : fit) {
        EXPECT_LE(DisplayWidth(line.text), static_cast<size_t>(columns));
      }
    }
  }
}

TEST(ShortSeconds, HaveThreeFiguresInSevenCharacters) {
  EXPECT_EQ(ShortSeconds(0), "0s");
  EXPECT_EQ(ShortSeconds(1.2345e-6), "1.23us");
  EXPECT_EQ(ShortSeconds(0.00025), "250us");
  EXPECT_EQ(ShortSeconds(0.0009994), "999us");
  EXPECT_EQ(ShortSeconds(0.0009996), "1.00ms");
  EXPECT_EQ(ShortSeconds(0.0099949), "9.99ms");
  EXPECT_EQ(ShortSeconds(0.009996), "10.0ms");
  EXPECT_EQ(ShortSeconds(0.09996), "100ms");
  EXPECT_EQ(ShortSeconds(1), "1.00s");
  EXPECT_EQ(ShortSeconds(12.34), "12.3s");
  EXPECT_EQ(ShortSeconds(300), "300s");
  EXPECT_EQ(ShortSeconds(99999), "99999s");
  EXPECT_EQ(ShortSeconds(360000), "100h");
}

TEST(FormatUptime, HasTheTwoLargestUnits) {
  EXPECT_EQ(FormatUptime(0.9), "0 s");
  EXPECT_EQ(FormatUptime(59.9), "59 s");
  EXPECT_EQ(FormatUptime(60), "1 min 0 s");
  EXPECT_EQ(FormatUptime(3600 + 61), "1 h 1 min");
  EXPECT_EQ(FormatUptime(2 * 86400 + 3 * 3600), "2 d 3 h");
}

}  // namespace
}  // namespace stowage
