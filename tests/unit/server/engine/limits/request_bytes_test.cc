#include "server/engine/limits/request_bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/events/rejection.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;

// How many times a client gets `bytes`; it keeps them in `holds`.
int Fill(RequestBytes& all, int64_t bytes, const std::string& client,
         std::vector<RequestBytes::Hold>* holds) {
  for (int count = 0;; ++count) {
    absl::StatusOr<RequestBytes::Hold> hold = all.Take(bytes, client);
    if (!hold.ok()) return count;
    holds->push_back(*std::move(hold));
  }
}

TEST(RequestBytes, OneClientGetsHalfAndLeavesTheOtherHalf) {
  RequestBytes all(1000);
  std::vector<RequestBytes::Hold> holds;
  EXPECT_EQ(Fill(all, 10, "a", &holds), 50);
  EXPECT_EQ(Fill(all, 10, "b", &holds), 25);
}

TEST(RequestBytes, AnyNumberOfGreedyClientsLeaveSomeForTheNext) {
  RequestBytes all(1'000'000);
  std::vector<RequestBytes::Hold> holds;
  for (int client = 0; client < 10; ++client) {
    EXPECT_GT(Fill(all, 100, std::to_string(client), &holds), 0) << client;
  }
}

TEST(RequestBytes, TheRefusalSaysWhyAndWhenToRetry) {
  RequestBytes all(1000);
  const auto refused = all.Take(501, "a");
  EXPECT_THAT(refused, Fails(absl::StatusCode::kResourceExhausted, HasSubstr("of this client")));
  EXPECT_EQ(RejectionOf(refused.status()), "request_memory");
  EXPECT_TRUE(refused.status().GetPayload(kRetryPayload).has_value());
}

TEST(RequestBytes, AHoldThatEndsOrMovesGivesItsBytesBackOnce) {
  RequestBytes all(1000);
  absl::StatusOr<RequestBytes::Hold> first = all.Take(500, "a");
  ASSERT_THAT(first, IsOk());
  {
    RequestBytes::Hold moved = *std::move(first);
    EXPECT_FALSE(all.Take(1, "a").ok());
    moved = RequestBytes::Hold();
    EXPECT_THAT(all.Take(500, "a"), IsOk());
  }
  EXPECT_THAT(all.Take(500, "a"), IsOk());
  EXPECT_FALSE(all.Take(501, "a").ok());
}

TEST(RequestBytes, AHoldMayBeChargedToAnotherClient) {
  RequestBytes all(1000);
  absl::StatusOr<RequestBytes::Hold> hold = all.Take(300, "first");
  ASSERT_THAT(hold, IsOk());
  EXPECT_FALSE(all.Take(300, "first").ok());
  hold->ChargeTo("second");
  hold->ChargeTo("second");
  EXPECT_THAT(all.Take(300, "first"), IsOk());
  EXPECT_FALSE(all.Take(300, "second").ok());
  *hold = RequestBytes::Hold();
  EXPECT_THAT(all.Take(500, "second"), IsOk());
}

TEST(RequestBytes, AHoldThatShrinksGivesTheRestBack) {
  RequestBytes all(1000);
  absl::StatusOr<RequestBytes::Hold> hold = all.Take(500, "client");
  ASSERT_THAT(hold, IsOk());
  hold->ShrinkTo(100);
  {
    const absl::StatusOr<RequestBytes::Hold> more = all.Take(400, "client");
    EXPECT_THAT(more, IsOk());
    EXPECT_FALSE(all.Take(1, "client").ok());
  }
  hold->ShrinkTo(0);
  *hold = RequestBytes::Hold();
  EXPECT_THAT(all.Take(500, "client"), IsOk());
}

TEST(RequestBytes, ALowerLimitLeavesWhatIsHeld) {
  RequestBytes all(1000);
  absl::StatusOr<RequestBytes::Hold> hold = all.Take(400, "a");
  ASSERT_THAT(hold, IsOk());
  all.SetMaxBytes(100);
  EXPECT_EQ(all.max_bytes(), 100);
  EXPECT_FALSE(all.Take(1, "b").ok());
  *hold = RequestBytes::Hold();
  EXPECT_THAT(all.Take(50, "b"), IsOk());
  EXPECT_FALSE(all.Take(51, "b").ok());
}

TEST(RequestBytes, StagesWithoutContentCountAsMuchAsOthers) {
  SolveRequest request;
  request.chain = EqualChain(1000);
  EXPECT_GE(BytesOf(request), static_cast<int64_t>(sizeof(Stage)) * 2 * 1000);
  SimulateRequest simulate;
  simulate.schedule.operations.resize(1000);
  EXPECT_GE(BytesOf(simulate), static_cast<int64_t>(1000 * sizeof(Operation)));
}

TEST(RequestBytes, WaysToSaveCountWithTheirNames) {
  Chain chain = EqualChain(10);
  const int64_t without = BytesOf(chain);
  for (Stage& stage : chain.stages) {
    stage.save_options.assign(
        5, {.name = std::string(100, 'n'), .kept = {std::string(100, 'k'), "k"}});
  }
  const auto of_option = static_cast<int64_t>(sizeof(SaveOption) + 2 * sizeof(std::string) + 200);
  EXPECT_GE(BytesOf(chain), without + 50 * of_option);
  EXPECT_GE(BytesOf(SolveRequest{chain, {}, "", {}}),
            BytesOf(chain) + 50 * static_cast<int64_t>(sizeof(SaveOption)));
}

}  // namespace
}  // namespace stowage
