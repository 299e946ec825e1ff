#include "server/engine/queue/client_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = ClientLines::Kind;

class ClientLinesTest : public testing::Test {
 protected:
  uint64_t Add(const std::string& client) { return lines_.Add(WorkOf(client)); }
  // Work that may lose its place.
  static Work WorkOf(const std::string& client) {
    return {.run = [] {},
            .client = client,
            .drop = [](const std::vector<std::string>&, const absl::Status&) {}};
  }

  ClientLines lines_;
};

TEST_F(ClientLinesTest, AClientHasOneTurnAndItsWorkInOrder) {
  const uint64_t first = Add("many");
  const uint64_t second = Add("many");
  const uint64_t other = Add("few");
  EXPECT_LT(first, second);
  EXPECT_THAT(lines_.turns(Kind::kAll), ElementsAre("many", "few"));
  EXPECT_THAT(lines_.tickets(Kind::kAll, "many"), ElementsAre(first, second));
  lines_.EndTurn(Kind::kAll, "many");
  EXPECT_THAT(lines_.turns(Kind::kAll), ElementsAre("few", "many"));
  EXPECT_EQ(lines_.Remove(other).client, "few");
  EXPECT_THAT(lines_.turns(Kind::kAll), ElementsAre("many")) << "an empty line has no turn";
  EXPECT_EQ(lines_.waiting_of("many"), 2);
  EXPECT_EQ(lines_.waiting_of("few"), 0);
}

TEST_F(ClientLinesTest, ShortWorkHasATurnOfItsOwnToo) {
  Add("long");
  Work work = WorkOf("short");
  work.is_short = true;
  const uint64_t ticket = lines_.Add(std::move(work));
  EXPECT_THAT(lines_.turns(Kind::kAll), ElementsAre("long", "short"));
  EXPECT_THAT(lines_.turns(Kind::kShort), ElementsAre("short"));
  (void)lines_.Remove(ticket);
  EXPECT_THAT(lines_.turns(Kind::kShort), IsEmpty());
}

TEST_F(ClientLinesTest, SharedWorkIsInTheLineOfEachOfItsClients) {
  const uint64_t ticket = Add("one");
  EXPECT_TRUE(lines_.Share(ticket, "other"));
  EXPECT_FALSE(lines_.Share(ticket, "other")) << "it is there already";
  EXPECT_FALSE(lines_.Share(ticket + 1, "other")) << "no such work waits";
  EXPECT_EQ(lines_.waiting(), 1);
  EXPECT_TRUE(lines_.Unshare(ticket, "one"));
  EXPECT_THAT(lines_.turns(Kind::kAll), ElementsAre("other"));
  (void)lines_.Remove(ticket);
  EXPECT_THAT(lines_.turns(Kind::kAll), IsEmpty());
}

TEST_F(ClientLinesTest, WorkStaysInItsLastLineUntilAnotherClientSharesIt) {
  const uint64_t ticket = Add("left");
  EXPECT_FALSE(lines_.Unshare(ticket, "left"));
  EXPECT_THAT(lines_.turns(Kind::kAll), ElementsAre("left"));
  EXPECT_TRUE(lines_.Share(ticket, "new"));
  EXPECT_THAT(lines_.turns(Kind::kAll), ElementsAre("new"));
}

TEST_F(ClientLinesTest, ReadmittedWorkTakesNoPlaceAndKeepsItsOwn) {
  Work work = WorkOf("client");
  work.is_readmitted = true;
  const uint64_t ticket = lines_.Add(std::move(work));
  EXPECT_EQ(lines_.waiting(), 1);
  EXPECT_EQ(lines_.places(), 0);
  EXPECT_FALSE(lines_.MakeRoomFor("other").has_value());
  (void)lines_.Remove(ticket);
  EXPECT_EQ(lines_.places(), 0);
}

TEST_F(ClientLinesTest, RoomIsMadeInTheLongestLineAndNoneForWhoHasIt) {
  for (int i = 0; i < 3; ++i) Add("long");
  for (int i = 0; i < 2; ++i) Add("middle");
  EXPECT_FALSE(lines_.MakeRoomFor("middle").has_value()) << "they would only swap places";
  const auto dropped = lines_.MakeRoomFor("new");
  ASSERT_TRUE(dropped.has_value());
  EXPECT_THAT(dropped->clients, ElementsAre("long"));
  EXPECT_EQ(lines_.waiting_of("long"), 2);
}

TEST_F(ClientLinesTest, SharedWorkCountsAsThatOfTheClientWithTheShortestLine) {
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 3; ++i) tickets.push_back(Add("long"));
  ASSERT_TRUE(lines_.Share(tickets[2], "modest"));
  const auto dropped = lines_.MakeRoomFor("new");
  ASSERT_TRUE(dropped.has_value());
  EXPECT_THAT(dropped->clients, ElementsAre("long"));
  EXPECT_EQ(lines_.work(tickets[2]).client, "long") << "the newest, which is shared, still waits";
}

TEST_F(ClientLinesTest, WorkWhoseCallersHaveLeftIsRemoved) {
  std::stop_source gone;
  Work work = WorkOf("gone");
  work.stop = gone.get_token();
  lines_.Add(std::move(work));
  Add("stays");
  EXPECT_THAT(lines_.RemoveStopped(), IsEmpty());
  gone.request_stop();
  EXPECT_EQ(lines_.RemoveStopped().size(), 1);
  EXPECT_THAT(lines_.turns(Kind::kAll), ElementsAre("stays"));
}

}  // namespace
}  // namespace stowage
