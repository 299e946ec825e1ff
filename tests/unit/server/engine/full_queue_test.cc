// Whose work a full work queue keeps.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/events/rejection.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/engine/one_thread.h"

namespace stowage {
namespace {

TEST(FullQueue, TakesFromTheClientWithTheLongestLine) {
  OneThread work({.max_waiting = 5});
  for (const char* name : {"a", "b", "c"}) ASSERT_THAT(work.Add("many", name), IsOk());
  for (const char* name : {"x", "y"}) ASSERT_THAT(work.Add("some", name), IsOk());
  EXPECT_THAT(work.Add("many", "d"), Fails(absl::StatusCode::kResourceExhausted, testing::_));
  EXPECT_THAT(work.Add("few", "1"), IsOk());
  EXPECT_EQ(work.dropped(), "c of many;");
  // Of five places three clients have 2, 2 and 1: another exchange would only turn them around.
  EXPECT_THAT(work.Add("few", "2"), Fails(absl::StatusCode::kResourceExhausted, testing::_));
  EXPECT_THAT(work.Add("new", "3"), IsOk());
  EXPECT_EQ(work.dropped(), "c of many;y of some;");  // the newest of lines of two
  EXPECT_EQ(work.Order(), "ax13b");
}

TEST(FullQueue, SharedWorkIsLostAsThatOfItsClientWithTheShortestLine) {
  OneThread work({.max_waiting = 4});
  work.AddShared({"many"}, "a");
  work.AddShared({"many"}, "b");
  work.AddShared({"many", "other"}, "S");
  work.AddShared({"many", "other"}, "T");
  EXPECT_THAT(work.Add("new", "1"), IsOk());
  EXPECT_EQ(work.dropped(), "b of many;");  // that of a line of four, the others are in one of two
  EXPECT_THAT(work.Add("newer", "2"), IsOk());
  EXPECT_EQ(work.dropped(), "b of many;a of many;");
  EXPECT_THAT(work.Add("newest", "3"), IsOk());
  EXPECT_EQ(work.dropped(), "b of many;a of many;T of many, other;");
  const auto refused = work.Add("last", "4");
  EXPECT_EQ(RejectionOf(refused.status()), "queue_full");
  EXPECT_EQ(work.Order(), "S123");
}

TEST(FullQueue, ClientsThatShareAllOfTheirWorkDoNotFillTheQueue) {
  const std::vector<std::string> colluding = {"eve", "mallory", "trudy", "oscar"};
  OneThread work({.max_waiting = 8});
  for (int i = 0; i < 8; ++i) {
    std::vector<std::string> clients = colluding;
    std::swap(clients.front(), clients[i % 4]);  // each asks for two
    work.AddShared(clients, std::to_string(i));
  }
  for (const char* name : {"A", "B", "C", "D"}) EXPECT_THAT(work.Add("honest", name), IsOk());
  EXPECT_THAT(work.Add("eve", "x"), Fails(absl::StatusCode::kResourceExhausted, testing::_));
  EXPECT_THAT(work.Add("other", "E"), IsOk());
  EXPECT_EQ(work.Order().size(), 8);
}

// A client with little in the queue shares the work of one with much, which keeps that much more.
TEST(FullQueue, AClientWithAShortLineKeepsNoMoreThanThatOfOthersInTheQueue) {
  OneThread work({.max_waiting = 6});
  for (const char* name : {"a", "b", "c", "d"}) work.AddShared({"many"}, name);
  for (const char* name : {"S", "T"}) work.AddShared({"many", "few"}, name);
  for (int i = 0; i < 4; ++i) EXPECT_THAT(work.Add("new" + std::to_string(i), "N"), IsOk());
  EXPECT_EQ(work.dropped(), "d of many;c of many;b of many;a of many;");
}

TEST(FullQueue, JoiningTheWorkOfOthersDoesNotCostThemTheirPlaces) {
  OneThread work({.max_waiting = 3});
  std::vector<uint64_t> tickets;
  for (const char* client : {"alice", "bob", "carol"}) {
    const auto ticket = work.Add(client, std::string(client, 1));
    ASSERT_THAT(ticket, IsOk());
    tickets.push_back(*ticket);
  }
  for (const int joined : {0, 1}) work.Share(tickets[joined], "mallory");
  const auto refused = work.Add("new", "1");
  EXPECT_EQ(RejectionOf(refused.status()), "queue_full");
  EXPECT_EQ(work.dropped(), "");
  EXPECT_EQ(work.Order(), "abc");
}

// Her own is in the longer line still, though that of the others is newer there.
TEST(FullQueue, JoiningTheWorkOfOthersDoesNotMakeItLostBeforeOnesOwn) {
  OneThread work({.max_waiting = 7});
  for (const char* name : {"m", "n", "o", "p"}) work.AddShared({"mallory"}, name);
  for (const char* name : {"a", "b", "c"}) work.AddShared({"alice", "mallory"}, name);
  EXPECT_THAT(work.Add("new", "1"), IsOk());
  EXPECT_EQ(work.dropped(), "p of mallory;");
}

TEST(FullQueue, WorkThatOthersHaveLeftCountsInItsLastClientsLine) {
  OneThread work({.max_waiting = 3});
  for (const char* name : {"a", "b", "c"}) {
    const auto shared = work.Add("many", name);
    ASSERT_THAT(shared, IsOk());
    work.Share(*shared, "other");
    work.Unshare(*shared, "other");
  }
  EXPECT_THAT(work.Add("new", "1"), IsOk());
  EXPECT_EQ(work.dropped(), "c of many;");
  EXPECT_EQ(work.Order(), "a1b");
}

TEST(FullQueue, ReadmittedWorkIsNotRefusedAndTakesNoPlaceButWaitsForItsTurn) {
  OneThread work({.max_waiting = 2, .max_of_a_client = 2});
  for (const char* name : {"a", "b"}) ASSERT_THAT(work.Add("many", name), IsOk());
  for (const char* name : {"R", "S", "T"}) ASSERT_THAT(work.Readmit("many", name), IsOk());
  ASSERT_THAT(work.Readmit("few", "Q"), IsOk());
  // It neither keeps others out nor makes a line longer.
  EXPECT_THAT(work.Add("new", "1"), IsOk());
  EXPECT_EQ(work.dropped(), "b of many;");
  const auto refused = work.Add("newer", "2");
  EXPECT_EQ(RejectionOf(refused.status()), "queue_full");
  EXPECT_EQ(work.Order(), "aQ1RST");
}

}  // namespace
}  // namespace stowage
