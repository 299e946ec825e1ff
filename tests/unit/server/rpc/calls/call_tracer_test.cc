#include "server/rpc/calls/call_tracer.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace stowage {
namespace {

constexpr const char* kCallersTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kCallersSpan = "b7ad6b7169203331";

// Keeps what is handed over.
class Keeper final : public TraceObserver {
 public:
  void CallTraced(TracedCall call) override { calls.push_back(std::move(call)); }
  std::vector<TracedCall> calls;
};

TraceParent CallerThat(bool is_sampled) {
  return {.trace = kCallersTrace, .parent = kCallersSpan, .is_sampled = is_sampled};
}

class CallTracerTest : public testing::Test {
 protected:
  Keeper keeper_;
};

TEST_F(CallTracerTest, ACallersFlagDecidesWhateverTheRatio) {
  for (const double ratio : {0.0, 1.0}) {
    CallTracer tracer(ratio, /*seed=*/1, keeper_);
    EXPECT_EQ(tracer.Begin(CallerThat(/*is_sampled=*/false)), nullptr);
    const CallTracePtr trace = tracer.Begin(CallerThat(/*is_sampled=*/true));
    ASSERT_NE(trace, nullptr);
    EXPECT_EQ(trace->ids().trace, kCallersTrace);
    EXPECT_EQ(trace->ids().parent, kCallersSpan);
  }
}

TEST_F(CallTracerTest, TracesTheRatioOfTheOtherCalls) {
  CallTracer tracer(0.25, /*seed=*/1, keeper_);
  constexpr int kCalls = 10'000;
  int traced = 0;
  for (int i = 0; i < kCalls; ++i) traced += tracer.Begin(std::nullopt) != nullptr ? 1 : 0;
  // Five standard deviations; the seed is fixed.
  EXPECT_NEAR(traced, kCalls / 4, 220);
  tracer.SetRatio(0);
  for (int i = 0; i < kCalls; ++i) ASSERT_EQ(tracer.Begin(std::nullopt), nullptr);
  tracer.SetRatio(1);
  for (int i = 0; i < kCalls; ++i) ASSERT_NE(tracer.Begin(std::nullopt), nullptr);
}

TEST_F(CallTracerTest, TracesFewRefusedCallsAndNoneByTheRatio) {
  CallTracer tracer(/*ratio=*/1, /*seed=*/1, keeper_);
  const auto now = RateLimit::Clock::now();
  EXPECT_EQ(tracer.BeginRefused(std::nullopt, now), nullptr);
  EXPECT_EQ(tracer.BeginRefused(CallerThat(/*is_sampled=*/false), now), nullptr);
  const auto traced = [&](RateLimit::Clock::time_point at) {
    int calls = 0;
    for (int i = 0; i < 1000; ++i) {
      calls += tracer.BeginRefused(CallerThat(/*is_sampled=*/true), at) != nullptr ? 1 : 0;
    }
    return calls;
  };
  const int at_once = traced(now);
  EXPECT_GE(at_once, CallTracer::kRefusedPerSecond);
  EXPECT_LE(at_once, CallTracer::kRefusedPerSecond + 1);
  EXPECT_EQ(traced(now + std::chrono::seconds(1)), CallTracer::kRefusedPerSecond);
  EXPECT_NE(tracer.Begin(CallerThat(/*is_sampled=*/true)), nullptr)
      << "of those who are let in all";
}

TEST_F(CallTracerTest, ATraceThatBeginsHereHasAnIdOfItsOwnAndNoParent) {
  CallTracer tracer(1, /*seed=*/1, keeper_);
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    const CallTracePtr trace = tracer.Begin(std::nullopt);
    EXPECT_EQ(trace->ids().trace.size(), 32);
    EXPECT_EQ(trace->ids().parent, "");
    ids.insert(trace->ids().trace);
  }
  EXPECT_EQ(ids.size(), 1000);
}

TEST_F(CallTracerTest, HandsOverACallWithItsStepsAndAnIdForEach) {
  CallTracer tracer(1, /*seed=*/1, keeper_);
  const CallTracePtr trace = tracer.Begin(CallerThat(/*is_sampled=*/true));
  const auto begin = CallTrace::Clock::now();
  trace->RecordUntilNow(kReadSpan, begin);
  trace->RecordUntilNow(kSolveSpan, begin);
  CallRecord record;
  record.id = "job 17";
  tracer.End(*trace, record, begin);
  ASSERT_EQ(keeper_.calls.size(), 1);
  const TracedCall& call = keeper_.calls.front();
  EXPECT_EQ(call.record.id, "job 17");
  EXPECT_EQ(call.ids.trace, kCallersTrace);
  EXPECT_EQ(call.begin, begin);
  EXPECT_GE(call.end, call.begin);
  ASSERT_EQ(call.spans.size(), 2);
  EXPECT_EQ(call.spans[0].name, kReadSpan);
  EXPECT_EQ(call.spans[1].name, kSolveSpan);
  const std::set<uint64_t> ids = {0, call.span_id, call.spans[0].id, call.spans[1].id};
  EXPECT_EQ(ids.size(), 4) << "none is 0, and none comes twice";
}

TEST_F(CallTracerTest, ACallHasSoManyStepsAtMost) {
  CallTracer tracer(1, /*seed=*/1, keeper_);
  const CallTracePtr trace = tracer.Begin(std::nullopt);
  const auto begin = CallTrace::Clock::now();
  for (size_t i = 0; i < CallTrace::kMaxSpans + 3; ++i) trace->RecordUntilNow(kReadSpan, begin);
  tracer.End(*trace, {}, begin);
  EXPECT_EQ(keeper_.calls.front().spans.size(), CallTrace::kMaxSpans);
  EXPECT_EQ(keeper_.calls.front().left_out, 3);
}

TEST(ScopedSpan, DoesNothingForACallThatIsNotTraced) {
  const ScopedSpan none(nullptr, kReadSpan);
  CallTrace trace(TraceIds{.trace = kCallersTrace});
  { const ScopedSpan some(&trace, kReadSpan); }
  const std::vector<CallSpan> spans = trace.TakeSpans();
  ASSERT_EQ(spans.size(), 1);
  EXPECT_GE(spans[0].end, spans[0].begin);
}

}  // namespace
}  // namespace stowage
