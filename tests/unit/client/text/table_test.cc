#include "client/text/table.h"

#include <gtest/gtest.h>

#include "client/text/timeline_bars.h"

namespace stowage {
namespace {

TEST(Table, AlignsColumnsByWhatATerminalShows) {
  Table table({Table::Align::kLeft, Table::Align::kRight, Table::Align::kLeft});
  table.Add({"réseau", "1", "x"});
  table.Add({"b", "100"});
  EXPECT_EQ(table.ToString(2), "  réseau    1  x\n  b       100\n");
}

TEST(MemoryBars, ShowTheMostOfEachShareOfTime) {
  std::vector<TimelineEntry> timeline(2);
  timeline[0] = {
      .start_seconds = 0, .end_seconds = 1, .memory_bytes = 4, .host_bytes = 0, .waits_for = {}};
  timeline[1] = {
      .start_seconds = 1, .end_seconds = 2, .memory_bytes = 8, .host_bytes = 0, .waits_for = {}};
  EXPECT_EQ(MemoryBars(timeline, 8, 4), "▄▄██");
  EXPECT_EQ(MemoryBars({}, 8, 4), "");
}

TEST(SweepLetters, ShowTheFirstSweepAndTheRecomputations) {
  using Sweep = StageFate::FirstSweep;
  const std::vector<StageFate> stages = {{1, Sweep::kSaved, 0, 0},
                                         {2, Sweep::kOutput, 1, 0},
                                         {3, Sweep::kNothing, 12, 0},
                                         {4, Sweep::kSaved, 0, 1}};
  EXPECT_EQ(SweepLetters(stages), "Sc.O");
  EXPECT_EQ(RecomputeDigits(stages), " 1+ ");
}

}  // namespace
}  // namespace stowage
