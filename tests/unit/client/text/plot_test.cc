#include "client/text/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Plot OnePanel(std::vector<PlotLine> lines) {
  return {.title = "title",
          .x_label = "x",
          .y_label = "y",
          .y_base = 1,
          .y_most = {},
          .panels = {{"panel", std::move(lines)}}};
}

// Of every element that has `mark` in it, what stands between `before` and `after`.
std::vector<std::string> All(const std::string& svg, const std::string& mark,
                             const std::string& before, const std::string& after) {
  std::vector<std::string> found;
  for (const absl::string_view line : absl::StrSplit(svg, '\n')) {  // an element each
    if (!absl::StrContains(line, mark)) continue;
    const size_t begin = line.find(before) + before.size();
    found.emplace_back(line.substr(begin, line.find(after, begin) - begin));
  }
  return found;
}

// The data of all lines, without markers, grid and legend.
std::vector<std::string> LinesOf(const std::string& svg) {
  return All(svg, "clip-path=", "d=\"", "\"");
}

std::vector<std::string> TooltipsOf(const std::string& svg) {
  return All(svg, "<title>", "<title>", "<");
}
std::vector<std::string> ColoursOf(const std::string& svg) {
  return All(svg, "<title>", "fill=\"", "\"");
}

// The letters of a path's data: what it does, not where.
std::string ShapeOf(std::string path) {
  path.erase(
      std::remove_if(path.begin(), path.end(),
                     [](char c) { return !absl::ascii_isalpha(static_cast<unsigned char>(c)); }),
      path.end());
  return path;
}

// The labels left of the y axis, from below.
std::vector<std::string> YLabelsOf(const std::string& svg) {
  return All(svg, "text-anchor=\"end\"", ">", "<");
}

TEST(Plot, IsOneDocumentWithAllTexts) {
  const std::string svg = ToSvg(OnePanel({{"rotor", {{0, 1.5}, {1, 1.0}}}}));
  EXPECT_THAT(svg,
              AllOf(StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""), EndsWith("</svg>\n"),
                    HasSubstr(">title</text>"), HasSubstr(">panel</text>"), HasSubstr(">x</text>"),
                    HasSubstr(">y</text>"), HasSubstr(">rotor</text>")));
  EXPECT_EQ(svg, ToSvg(OnePanel({{"rotor", {{0, 1.5}, {1, 1.0}}}})));
}

TEST(Plot, EscapesNames) {
  const std::string svg = ToSvg(OnePanel({{"<a> & \"b\"", {{0, 1}}}}));
  EXPECT_THAT(svg, HasSubstr("&lt;a&gt; &amp; &quot;b&quot;"));
  EXPECT_THAT(svg, Not(HasSubstr("<a>")));
}

TEST(Plot, BreaksALineWhereThereIsNoValue) {
  const std::string svg = ToSvg(
      OnePanel({{"rotor", {{0, {}}, {1, 2}, {2, 1.8}, {3, {}}, {4, 1.4}, {5, 1.2}, {6, 1.0}}}}));
  const std::vector<std::string> lines = LinesOf(svg);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(ShapeOf(lines[0]), "MLMLL");
  EXPECT_THAT(TooltipsOf(svg), ElementsAre("rotor: 1, 2", "rotor: 2, 1.8", "rotor: 4, 1.4",
                                           "rotor: 5, 1.2", "rotor: 6, 1"));
}

TEST(Plot, SaysWhereThereAreNoValuesAtAll) {
  EXPECT_THAT(ToSvg(OnePanel({{"rotor", {{0, {}}}}})), HasSubstr(">no values</text>"));
  EXPECT_THAT(ToSvg(OnePanel({})), HasSubstr(">no values</text>"));
}

TEST(Plot, TellsLinesApartByColourAndMarker) {
  std::vector<PlotLine> lines;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}) {
    lines.push_back({name, {{0, 1.0 + static_cast<double>(lines.size())}}});
  }
  const std::string svg = ToSvg(OnePanel(std::move(lines)));
  std::vector<std::string> looks = ColoursOf(svg);
  const std::vector<std::string> outlines = All(svg, "<title>", "d=\"", "\"");
  ASSERT_EQ(looks.size(), outlines.size());
  for (size_t i = 0; i < looks.size(); ++i) looks[i] += ShapeOf(outlines[i]);
  std::sort(looks.begin(), looks.end());
  EXPECT_EQ(looks.size(), 10U);
  EXPECT_EQ(std::unique(looks.begin(), looks.end()), looks.end());
}

TEST(Plot, NamesEachLineOnceAndDrawsItAlikeInEveryPanel) {
  Plot plot = OnePanel({{"rotor", {{0, 1}}}, {"pofo", {{0, 2}}}});
  plot.panels.push_back({"second", {{"pofo", {{0, 2}}}, {"rotor", {{0, 1}}}}});
  const std::string svg = ToSvg(plot);
  EXPECT_THAT(All(svg, "text-anchor=\"start\"", ">", "<"), ElementsAre("rotor", "pofo"));
  const std::vector<std::string> colours = ColoursOf(svg);
  ASSERT_EQ(colours.size(), 4U);
  EXPECT_EQ(colours[0], colours[2]);
  EXPECT_EQ(colours[1], colours[3]);
  EXPECT_NE(colours[0], colours[1]);
}

TEST(Plot, ClipsLinesFarAboveTheOthers) {
  const std::vector<PlotLine> lines = {
      {"a", {{0, 1.25}, {1, 1}}}, {"b", {{0, 1.5}, {1, 1}}}, {"hopeless", {{0, 9}, {1, 1.2}}}};
  const std::string svg = ToSvg(OnePanel(lines));
  EXPECT_EQ(YLabelsOf(svg).back(), "2.0");  // twice as far from 1 as b
  EXPECT_THAT(TooltipsOf(svg), Not(testing::Contains("hopeless: 0, 9")));
  EXPECT_THAT(TooltipsOf(svg), testing::Contains("hopeless: 1, 1.2"));
  Plot whole = OnePanel(lines);
  whole.y_most = 10;
  EXPECT_EQ(YLabelsOf(ToSvg(whole)).back(), "10");
  whole.y_most = 1.5;
  EXPECT_EQ(YLabelsOf(ToSvg(whole)).back(), "1.5");
}

TEST(Plot, ShowsAPointOfEachLine) {
  const std::string svg =
      ToSvg(OnePanel({{"a", {{0, 1.2}}}, {"b", {{0, 1.2}}}, {"far", {{0, 5}}}}));
  EXPECT_THAT(TooltipsOf(svg), testing::Contains("far: 0, 5"));
}

TEST(Plot, DoesNotMagnifyRounding) {
  const std::vector<std::string> labels =
      YLabelsOf(ToSvg(OnePanel({{"a", {{0, 1}, {1, 1 + 1e-15}}}})));
  EXPECT_EQ(labels.front(), "1.00");
  EXPECT_EQ(labels.back(), "1.10");
}

TEST(Plot, ShowsAValueThatIsTheLastTickButForRounding) {
  EXPECT_EQ(TooltipsOf(ToSvg(OnePanel({{"a", {{0, 1}, {1, 1.2 + 1e-12}}}}))).size(), 2U);
}

TEST(Plot, HasAWidthForOneValueOfX) {
  const std::string svg = ToSvg(OnePanel({{"a", {{0.2, 1.5}}}}));
  EXPECT_THAT(svg, Not(AnyOf(HasSubstr("nan"), HasSubstr("inf"))));
  EXPECT_THAT(TooltipsOf(svg), ElementsAre("a: 0.2, 1.5"));
}

}  // namespace
}  // namespace stowage
