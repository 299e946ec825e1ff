#include "server/engine/solves/solve_steps.h"

#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "server/events/call_trace.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/engine/engine_fixture.h"

namespace stowage {
namespace {

using Names = std::vector<std::string>;

Names NamesOf(const std::vector<CallSpan>& spans) {
  Names names;
  for (const CallSpan& span : spans) names.emplace_back(span.name);
  return names;
}

CallTracePtr NewTrace() { return std::make_shared<CallTrace>(TraceIds{}); }

TEST(SolveSteps, OneBeginsWhereTheOtherEnds) {
  SolveSteps steps;
  steps.Begin(kFindInTiersSpan);
  steps.Begin(kFindInTiersSpan);
  steps.Begin(kQueueSpan);
  steps.End();
  steps.End();
  CallTrace trace(TraceIds{});
  steps.RecordIn(trace, SolveSteps::Began::kByCaller);
  const std::vector<CallSpan> spans = trace.TakeSpans();
  ASSERT_EQ(NamesOf(spans), (Names{"stowage.find_in_tiers", "stowage.queue"}));
  EXPECT_LE(spans[0].begin, spans[0].end);
  EXPECT_LE(spans[0].end, spans[1].begin);
  EXPECT_LE(spans[1].begin, spans[1].end);
  EXPECT_FALSE(spans[0].is_joined);
}

TEST(SolveSteps, TheOneUnderWayEndsNowForACallerThatLeaves) {
  SolveSteps steps;
  steps.Begin(kSolveSpan);
  CallTrace trace(TraceIds{});
  steps.RecordIn(trace, SolveSteps::Began::kByOther);
  const auto left = CallTrace::Clock::now();
  const std::vector<CallSpan> spans = trace.TakeSpans();
  ASSERT_EQ(NamesOf(spans), Names{"stowage.solve"});
  EXPECT_LE(spans[0].end, left);
  EXPECT_TRUE(spans[0].is_joined);
}

class TracedSolves : public EngineTest {};

TEST_F(TracedSolves, ASolveHasItsStepsInOrder) {
  const CallTracePtr trace = NewTrace();
  ASSERT_THAT(Send(Quick(), {.trace = trace})->Wait(), IsOk());
  const std::vector<CallSpan> spans = trace->TakeSpans();
  EXPECT_EQ(NamesOf(spans), (Names{"stowage.find_answer", "stowage.find_in_tiers", "stowage.queue",
                                   "stowage.solve"}));
  CallTrace::Clock::time_point last = spans.front().begin;
  for (const CallSpan& span : spans) {
    EXPECT_LE(last, span.begin) << span.name;
    EXPECT_LE(span.begin, span.end) << span.name;
    EXPECT_FALSE(span.is_joined) << span.name;
    last = span.end;
  }
}

TEST_F(TracedSolves, AHitInMemoryHasItsLookUpAlone) {
  Answered(Quick());
  const CallTracePtr trace = NewTrace();
  ASSERT_THAT(Send(Quick(), {.trace = trace})->Wait(), IsOk());
  EXPECT_EQ(NamesOf(trace->TakeSpans()), Names{"stowage.find_answer"});
}

// Also where the call that began the solve is not traced.
TEST_F(TracedSolves, ACallerThatJoinsGetsTheStepsOfTheSolve) {
  BlockQuickThreads();  // the solve waits for its look-up in the tier
  const ListenerPtr first = Send(Quick());
  const CallTracePtr trace = NewTrace();
  const ListenerPtr second = Send(Quick(), {.trace = trace});
  tier_.Resume();
  ASSERT_THAT(first->Wait(), IsOk());
  ASSERT_THAT(second->Wait(), IsOk());
  const std::vector<CallSpan> spans = trace->TakeSpans();
  ASSERT_EQ(NamesOf(spans), (Names{"stowage.find_answer", "stowage.find_in_tiers", "stowage.queue",
                                   "stowage.solve"}));
  EXPECT_FALSE(spans[0].is_joined) << "its own";
  for (size_t i = 1; i < spans.size(); ++i) EXPECT_TRUE(spans[i].is_joined) << spans[i].name;
}

TEST_F(TracedSolves, ACallerThatLeavesHasTheStepsUntilThen) {
  std::stop_source gone;
  const CallTracePtr trace = NewTrace();
  const ListenerPtr listener = Send(Endless(), {.stop = gone.get_token(), .trace = trace});
  while (listener->progress < 0) std::this_thread::yield();  // it runs
  gone.request_stop();
  EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, testing::_));
  EXPECT_EQ(NamesOf(trace->TakeSpans()).back(), "stowage.solve");
}

// The schedule of the solve is simulated on the chain of each.
TEST_F(TracedSolves, ACallerWithAnotherChainHasASimulation) {
  BlockQuickThreads();
  const ListenerPtr first = Send(Similar(Quick(), 1));
  const CallTracePtr trace = NewTrace();
  const ListenerPtr second = Send(Similar(Quick()), {.trace = trace});
  tier_.Resume();
  ASSERT_THAT(first->Wait(), IsOk());
  ASSERT_THAT(second->Wait(), IsOk());
  EXPECT_EQ(NamesOf(trace->TakeSpans()).back(), "stowage.simulate");
}

}  // namespace
}  // namespace stowage
