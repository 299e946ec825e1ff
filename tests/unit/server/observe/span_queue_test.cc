#include "server/observe/span_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace stowage {
namespace {

// With so many spans, its own included.
TracedCall CallOf(size_t spans) {
  TracedCall call;
  call.spans.resize(spans - 1);
  return call;
}

TEST(SpanQueue, GivesCallsInTheirOrder) {
  SpanQueue queue;
  for (const size_t spans : {3, 1, 2}) queue.Add(CallOf(spans));
  queue.Close();
  const std::vector<TracedCall> batch = queue.Take(std::chrono::hours(1));
  ASSERT_EQ(batch.size(), 3);
  EXPECT_EQ(batch[0].size(), 3);
  EXPECT_EQ(batch[1].size(), 1);
  EXPECT_EQ(batch[2].size(), 2);
  EXPECT_TRUE(queue.Take(std::chrono::hours(1)).empty());
}

TEST(SpanQueue, ABatchThatIsFullWaitsForNoOthers) {
  SpanQueue queue;
  constexpr size_t kHalf = SpanQueue::kBatchSpans / 2;
  for (int i = 0; i < 3; ++i) queue.Add(CallOf(kHalf));
  EXPECT_EQ(queue.Take(std::chrono::hours(1)).size(), 2);
}

TEST(SpanQueue, ABatchThatIsNotFullIsGivenAfterAWhile) {
  SpanQueue queue;
  queue.Add(CallOf(1));
  EXPECT_EQ(queue.Take(std::chrono::milliseconds(1)).size(), 1);
}

TEST(SpanQueue, WakesWhoeverWaitsForACall) {
  SpanQueue queue;
  std::thread adds([&queue] { queue.Add(CallOf(SpanQueue::kBatchSpans)); });
  EXPECT_EQ(queue.Take(std::chrono::hours(1)).size(), 1);
  adds.join();
}

TEST(SpanQueue, DropsAndCountsWhatDoesNotFit) {
  SpanQueue queue;
  queue.Add(CallOf(SpanQueue::kMaxSpans - 2));
  queue.Add(CallOf(3));
  EXPECT_EQ(queue.counts().dropped, 3);
  queue.Add(CallOf(2));
  EXPECT_EQ(queue.counts().dropped, 3);
  queue.Add(CallOf(1));
  EXPECT_EQ(queue.counts().dropped, 4);
  EXPECT_EQ(queue.Take(std::chrono::seconds(0)).size(), 1);
  queue.Add(CallOf(3));
  EXPECT_EQ(queue.counts().dropped, 4) << "there is room again";
}

TEST(SpanQueue, CountsStepsThatACallLeftOut) {
  SpanQueue queue;
  TracedCall call = CallOf(2);
  call.left_out = 5;
  queue.Add(call);
  EXPECT_EQ(queue.counts().dropped, 5);
}

}  // namespace
}  // namespace stowage
