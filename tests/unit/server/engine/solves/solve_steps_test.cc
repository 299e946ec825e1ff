#include "server/engine/solves/solve_steps.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "server/events/call_trace.h"
#include "solver/algorithms/solve_phase.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/engine/engine_fixture.h"

namespace stowage {
namespace {

using Names = std::vector<std::string>;

// Of the steps, without their parts.
std::vector<CallSpan> StepsOf(CallTrace& trace) {
  std::vector<CallSpan> spans = trace.TakeSpans();
  std::erase_if(spans, [](const CallSpan& span) { return span.parent != CallSpan::kNoParent; });
  return spans;
}

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

// Of two solves, as in a call with several.
TEST(SolveSteps, PhasesArePartsOfTheirStep) {
  CallTrace trace(TraceIds{});
  for (int solve = 0; solve < 2; ++solve) {
    SolveSteps steps;
    steps.Begin(kQueueSpan);
    steps.Begin(kSolveSpan);
    { SolvePhase(&steps.phases(), "rotor").EndsWith(PhaseOutcome::kBetter); }
    { const SolvePhase stopped(&steps.phases(), kBoundPhase); }
    steps.End();
    steps.RecordIn(trace, SolveSteps::Began::kByOther);
  }
  const std::vector<CallSpan> spans = trace.TakeSpans();
  const Names once = {"stowage.queue", "stowage.solve", "stowage.solve", "stowage.bound"};
  Names twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  ASSERT_EQ(NamesOf(spans), twice);
  for (const size_t first : {size_t{0}, size_t{4}}) {
    const CallSpan& solve = spans[first + 1];
    const CallSpan& rotor = spans[first + 2];
    const CallSpan& bound = spans[first + 3];
    EXPECT_EQ(solve.parent, CallSpan::kNoParent);
    EXPECT_EQ(solve.outcome, "");
    EXPECT_EQ(rotor.parent, first + 1);
    EXPECT_EQ(rotor.solver, "rotor");
    EXPECT_EQ(rotor.outcome, "better");
    EXPECT_TRUE(rotor.is_joined);
    EXPECT_EQ(bound.parent, first + 1);
    EXPECT_EQ(bound.outcome, "stopped");
    EXPECT_LE(solve.begin, rotor.begin);
    EXPECT_LE(rotor.end, bound.begin);
    EXPECT_LE(bound.end, solve.end);
  }
}

TEST(SolveSteps, KeepSoManyPhasesAtMost) {
  SolveSteps steps;
  steps.Begin(kSolveSpan);
  for (size_t i = 0; i < SolveSteps::kMaxPhases + 3; ++i) {
    SolvePhase(&steps.phases(), "rotor").EndsWith(PhaseOutcome::kNoBetter);
  }
  CallTrace trace(TraceIds{});
  steps.RecordIn(trace, SolveSteps::Began::kByCaller);
  EXPECT_EQ(trace.left_out(), 3);
  EXPECT_EQ(trace.TakeSpans().size(), 1 + SolveSteps::kMaxPhases);
}

TEST(SolveSteps, TheOneUnderWayEndsNowForACallerThatLeaves) {
  SolveSteps steps;
  steps.Begin(kSolveSpan);
  const SolvePhase phase(&steps.phases(), "rotor");
  CallTrace trace(TraceIds{});
  steps.RecordIn(trace, SolveSteps::Began::kByOther);
  const auto left = CallTrace::Clock::now();
  const std::vector<CallSpan> spans = trace.TakeSpans();
  ASSERT_EQ(NamesOf(spans), (Names{"stowage.solve", "stowage.solve"}));
  for (const CallSpan& span : spans) {
    EXPECT_LE(span.end, left);
    EXPECT_TRUE(span.is_joined);
  }
  EXPECT_EQ(spans[1].outcome, "") << "it has not ended";
}

class TracedSolves : public EngineTest {};

TEST_F(TracedSolves, ASolveHasItsStepsInOrder) {
  const CallTracePtr trace = NewTrace();
  ASSERT_THAT(Send(Quick(), {.trace = trace})->Wait(), IsOk());
  const std::vector<CallSpan> spans = StepsOf(*trace);
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
  EXPECT_EQ(NamesOf(StepsOf(*trace)), Names{"stowage.find_answer"});
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
  const std::vector<CallSpan> spans = StepsOf(*trace);
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
  EXPECT_EQ(NamesOf(StepsOf(*trace)).back(), "stowage.solve");
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
  EXPECT_EQ(NamesOf(StepsOf(*trace)).back(), "stowage.simulate");
}

}  // namespace
}  // namespace stowage
