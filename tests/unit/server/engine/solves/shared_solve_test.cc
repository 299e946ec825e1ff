// Equal requests in flight, which share one solve.
#include "server/engine/solves/shared_solve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/service/origin.h"
#include "server/events/rejection.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/engine/engine_fixture.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using testing::_;
using testing::HasSubstr;

class SharedSolveTest : public EngineTest {};

TEST_F(SharedSolveTest, SolvesEqualRequestsOnce) {
  SolveRequest slow = Endless();
  slow.platform.memory_bytes = 30'000'000;
  slow.options.memory_slots = 150;  // some tenths of a second
  std::vector<ListenerPtr> listeners;
  for (int i = 0; i < 100; ++i) listeners.push_back(Send(slow));
  int solved = 0;
  const Answer* answer = nullptr;
  for (const ListenerPtr& listener : listeners) {
    const auto result = listener->Wait();
    ASSERT_THAT(result, IsOk());
    solved += result->origin.source == Origin::Source::kSolved ? 1 : 0;
    if (answer == nullptr) answer = result->answer.get();
    if (result->origin.source == Origin::Source::kMemoryCache) continue;
    EXPECT_EQ(result->answer.get(), answer);
  }
  EXPECT_EQ(solved, 1);
}

TEST_F(SharedSolveTest, StopsASolveWhenTheLastOfItsCallersLeaves) {
  std::vector<std::stop_source> callers(3);
  std::vector<ListenerPtr> listeners;
  for (std::stop_source& caller : callers) {
    listeners.push_back(Send(Endless(), {.stop = caller.get_token()}));
  }
  WaitUntilRunning(1);
  callers[0].request_stop();
  callers[1].request_stop();
  for (int i : {0, 1}) EXPECT_THAT(listeners[i]->Wait(), Fails(absl::StatusCode::kCancelled, _));
  EXPECT_EQ(engine_.stats().solves.running, 1);
  callers[2].request_stop();
  EXPECT_THAT(listeners[2]->Wait(),
              Fails(absl::StatusCode::kCancelled, HasSubstr("no longer waits")));
  const auto left = Clock::now();
  while (engine_.stats().solves.running > 0) std::this_thread::yield();
  EXPECT_LT(Clock::now() - left, kLong);
}

TEST_F(SharedSolveTest, CountsASolveOnceThoughItsFirstCallerHasLeft) {
  SolveRequest slow = Endless();
  slow.platform.memory_bytes = 30'000'000;
  slow.options.memory_slots = 150;
  std::stop_source gone;
  const ListenerPtr first = Send(slow, {.stop = gone.get_token()});
  const ListenerPtr second = Send(slow);
  const ListenerPtr third = Send(slow);
  gone.request_stop();
  (void)first->Wait();
  const auto one = second->Wait();
  const auto other = third->Wait();
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(other, IsOk());
  EXPECT_EQ(one->origin.source, Origin::Source::kSolved);
  EXPECT_EQ(other->origin.source, Origin::Source::kCoalesced);
}

TEST_F(SharedSolveTest, SolvesAgainForACallerAfterTheLastOneLeft) {
  std::stop_source gone;
  const ListenerPtr first = Send(Endless(), {.stop = gone.get_token()});
  WaitUntilRunning(1);
  gone.request_stop();
  EXPECT_THAT(first->Wait(), Fails(absl::StatusCode::kCancelled, _));
  std::stop_source caller;
  const ListenerPtr second = Send(Endless(), {.stop = caller.get_token()});
  while (second->progress < 0) std::this_thread::yield();
  caller.request_stop();
  EXPECT_THAT(second->Wait(), Fails(absl::StatusCode::kCancelled, _));
}

TEST_F(SharedSolveTest, EachTakesTheBestAtItsOwnDeadline) {
  SolveRequest patient = SlowWithResults();
  patient.options.time_budget_seconds = 1;
  SolveRequest hasty = SlowWithResults();
  hasty.options.time_budget_seconds = 0.1;
  const ListenerPtr second = Send(patient);
  const ListenerPtr first = Send(hasty);
  const auto early = first->Wait();
  const auto late = second->Wait();
  ASSERT_THAT(early, IsOk());
  ASSERT_THAT(late, IsOk());
  EXPECT_LE(late->answer->prediction.makespan_seconds, early->answer->prediction.makespan_seconds);
  EXPECT_EQ(early->origin.source, Origin::Source::kCoalesced);
}

// A thousand ranks of a job ask the same.
TEST_F(SharedSolveTest, EqualRequestsInFlightTakeTheMemoryOfOne) {
  const int64_t bytes = BytesOf(Endless());
  Engine engine({.threads = 1, .request_bytes = 4 * bytes}, &cache_, &observer_);
  std::stop_source callers;
  std::vector<ListenerPtr> listeners;
  for (int i = 0; i < 1000; ++i) {
    listeners.push_back(std::make_shared<RecordingListener>());
    engine.Solve(Endless(), {.client = "job", .stop = callers.get_token()}, listeners.back());
  }
  EXPECT_THAT(engine.request_bytes().Take(bytes / 2, "job"), IsOk());
  callers.request_stop();
  for (const ListenerPtr& listener : listeners) {
    EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
  }
}

TEST_F(SharedSolveTest, TheMemoryOfARequestIsOnTheAccountOfAClientThatStays) {
  const int64_t bytes = BytesOf(Endless());
  Engine engine({.threads = 1, .request_bytes = 5 * bytes}, &cache_, &observer_);
  const auto may_take = [&](const std::string& client) {
    return engine.request_bytes().Take(bytes + bytes / 5, client).ok();
  };
  std::vector<ListenerPtr> listeners;
  int next = 0;
  for (const char* client : {"first", "second", "third"}) {
    listeners.push_back(std::make_shared<RecordingListener>());
    const int variant = next == 2 ? 1 : 0;  // the last one's is rounded to the others'
    engine.Solve(OfRank(variant, Endless()), {.client = client, .stop = stops_[next++].get_token()},
                 listeners.back());
  }
  EXPECT_FALSE(may_take("first"));
  stops_[0].request_stop();
  EXPECT_TRUE(may_take("first"));
  EXPECT_FALSE(may_take("second"));
  stops_[1].request_stop();
  EXPECT_TRUE(may_take("second"));  // though its request is solved still
  stops_[2].request_stop();
  for (const ListenerPtr& listener : listeners) {
    EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
  }
}

TEST_F(SharedSolveTest, ACallerMayJoinWithTheRequestOfAnother) {
  const auto first = std::make_shared<RecordingListener>();
  const auto second = std::make_shared<RecordingListener>();
  const auto hasty = std::make_shared<RecordingListener>();
  const auto late = std::make_shared<RecordingListener>();
  const SolveRequest request = SlowWithResults(200);  // runs to its end, at low priority
  const KeyedRequestPtr keyed = engine_.Solve(request, {}, first);
  ASSERT_NE(keyed, nullptr);
  engine_.SolveEqual(keyed, /*time_budget_seconds=*/0, {}, second);
  engine_.SolveEqual(keyed, /*time_budget_seconds=*/0.01, {}, hasty);
  const auto early = hasty->Wait();
  const auto solved = first->Wait();
  const auto joined = second->Wait();
  for (const auto* result : {&early, &solved, &joined}) ASSERT_THAT(*result, IsOk());
  EXPECT_EQ(early->origin.source, Origin::Source::kCoalesced);
  EXPECT_EQ(solved->origin.source, Origin::Source::kSolved);
  EXPECT_EQ(joined->origin.source, Origin::Source::kCoalesced);
  EXPECT_EQ(joined->answer, solved->answer);
  EXPECT_EQ(joined->origin.fingerprint, solved->origin.fingerprint);
  EXPECT_EQ(engine_.Solve(request, {}, late), nullptr) << "it is cached";
  EXPECT_EQ(late->Wait()->origin.source, Origin::Source::kMemoryCache);
}

TEST_F(SharedSolveTest, ARequestWhoseCallersHaveLeftIsOnTheAccountOfWhoSendsItAgain) {
  const int64_t bytes = BytesOf(Endless());
  Engine engine({.threads = 1, .request_bytes = 4 * bytes}, &cache_, &observer_);
  const auto may_take = [&](const std::string& client) {
    return engine.request_bytes().Take(bytes + bytes / 5, client).ok();
  };
  const auto first = std::make_shared<RecordingListener>();
  const auto second = std::make_shared<RecordingListener>();
  const KeyedRequestPtr keyed =
      engine.Solve(Endless(), {.client = "first", .stop = stops_[0].get_token()}, first);
  ASSERT_NE(keyed, nullptr);
  stops_[0].request_stop();
  EXPECT_THAT(first->Wait(), Fails(absl::StatusCode::kCancelled, _));
  engine.SolveEqual(keyed, /*time_budget_seconds=*/0,
                    {.client = "second", .stop = stops_[1].get_token()}, second);
  EXPECT_TRUE(may_take("first"));
  EXPECT_FALSE(may_take("second"));
  stops_[1].request_stop();
  EXPECT_THAT(second->Wait(), Fails(absl::StatusCode::kCancelled, _));
}

TEST_F(SharedSolveTest, ACallerIsNotRefusedForTheLimitOfTheClientThatItJoined) {
  Engine engine({.threads = 2,
                 .client_limit = 1,
                 .solve_bytes = int64_t{16} << 30,
                 .all_solves_bytes = int64_t{64} << 30},
                &cache_, &observer_);
  std::stop_source callers;
  const auto send = [&](int variant, const std::string& client) {
    auto listener = std::make_shared<RecordingListener>();
    engine.Solve(Endless(variant), {.client = client, .stop = callers.get_token()}, listener);
    return listener;
  };
  const ListenerPtr running = send(0, "full");
  while (running->progress < 0) std::this_thread::yield();
  tier_.Pause();
  const ListenerPtr refused = send(1, "full");
  const ListenerPtr joined = send(1, "other");
  tier_.Resume();
  const auto result = refused->Wait();
  EXPECT_EQ(RejectionOf(result.status()), "client_limit");
  while (joined->progress < 0) std::this_thread::yield();
  callers.request_stop();
  EXPECT_THAT(joined->Wait(), Fails(absl::StatusCode::kCancelled, _));
  EXPECT_THAT(running->Wait(), Fails(absl::StatusCode::kCancelled, _));
}

TEST_F(SharedSolveTest, AQueuedSolveIsNoLongerOnTheAccountOfAClientThatHasLeft) {
  Engine engine({.threads = 1,
                 .client_limit = 1,
                 .solve_bytes = int64_t{16} << 30,
                 .all_solves_bytes = int64_t{64} << 30},
                &cache_, &observer_);
  std::stop_source callers;
  std::vector<ListenerPtr> listeners;
  const auto send = [&](int variant, const std::string& client, std::stop_token stop) {
    listeners.push_back(std::make_shared<RecordingListener>());
    engine.Solve(Endless(variant), {.client = client, .stop = std::move(stop)}, listeners.back());
  };
  const auto wait_for = [&](size_t waiting) {
    while (engine.stats().solves.waiting < waiting) std::this_thread::yield();
  };
  send(0, "busy", callers.get_token());
  while (listeners[0]->progress < 0) std::this_thread::yield();
  std::stop_source first;
  send(1, "first", first.get_token());
  send(1, "second", callers.get_token());
  wait_for(1);
  first.request_stop();
  send(2, "first", callers.get_token());
  wait_for(2);
  callers.request_stop();
  for (const ListenerPtr& listener : listeners) {
    EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
  }
}

// The owner leaves while its solve is being added, before anybody knows the ticket: the queue then
// tells work whose caller has left, here a frontier, that it is over.
TEST_F(SharedSolveTest, AnOwnerThatLeavesWhileItsSolveIsQueuedHasNothingInItsLine) {
  Engine engine(
      {.threads = 1, .solve_bytes = int64_t{16} << 30, .all_solves_bytes = int64_t{64} << 30},
      &cache_, &observer_);
  auto& [callers, owner, frontier] = stops_;
  std::vector<ListenerPtr> listeners;
  const auto send = [&](int variant, const std::string& client, std::stop_token stop) {
    listeners.push_back(std::make_shared<RecordingListener>());
    engine.Solve(Endless(variant), {.client = client, .stop = std::move(stop), .limits = kOneSolve},
                 listeners.back());
    return listeners.back();
  };
  const ListenerPtr running = send(0, "busy", callers.get_token());
  while (running->progress < 0) std::this_thread::yield();
  FrontierRequest request;
  request.chain = EqualChain(10);
  engine.FindFrontier(request, {.client = "owner", .stop = frontier.get_token()},
                      [this](const auto&) { stops_[1].request_stop(); });
  frontier.request_stop();
  tier_.Pause();
  const ListenerPtr left = send(1, "owner", owner.get_token());
  send(1, "other", callers.get_token());
  tier_.Resume();
  EXPECT_THAT(left->Wait(), Fails(absl::StatusCode::kCancelled, _));
  listeners.erase(listeners.begin() + 1);
  BlockQuickThreads(engine);
  tier_.Resume();
  const ListenerPtr next = send(2, "owner", callers.get_token());
  while (next->queued == 0) std::this_thread::yield();
  BlockQuickThreads(engine, 6000);
  tier_.Resume();
  callers.request_stop();
  for (const ListenerPtr& listener : listeners) {
    EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
  }
  for (const ListenerPtr& listener : blockers_) (void)listener->Wait();
}

// All of their solves are in all of their lines. Those of the solve that loses its place are all
// told.
TEST_F(SharedSolveTest, ClientsThatShareAllTheirSolvesLeavePlacesToOthers) {
  const std::vector<std::string> colluding = {"eve", "mallory", "oscar", "trudy"};
  std::stop_source callers;
  std::vector<ListenerPtr> listeners;
  const auto send = [&](int variant, const std::string& client) {
    listeners.push_back(Send(Endless(variant), {.client = client, .stop = callers.get_token()}));
    while (listeners.back()->queued == 0) std::this_thread::yield();
  };
  for (int i = 0; i < 6; ++i) send(i, colluding[i % 4]);  // 2 + 4 fit
  WaitUntilRunning(2);
  while (engine_.stats().solves.waiting < 4) std::this_thread::yield();
  std::vector<ListenerPtr> last = {listeners[5]};
  for (int i = 0; i < 6; ++i) {
    for (const std::string& client : colluding) {
      const ListenerPtr joined = Send(Endless(i), {.client = client, .stop = callers.get_token()});
      (i == 5 ? last : listeners).push_back(joined);
    }
  }
  listeners.erase(listeners.begin() + 5);
  send(6, "modest");
  for (const ListenerPtr& listener : last) {
    EXPECT_EQ(RejectionOf(listener->Wait().status()), "queue_full");
  }
  EXPECT_EQ(engine_.stats().solves.waiting, 4);
  callers.request_stop();
  for (const ListenerPtr& listener : listeners) {
    EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
  }
}

TEST_F(SharedSolveTest, ALookUpStartsAtTheFirstTurnOfAnyOfItsCallers) {
  BlockQuickThreads();
  std::vector<ListenerPtr> listeners;
  for (int i = 0; i < 20; ++i) listeners.push_back(Send(Quick(i), {.client = "many"}));
  const SolveRequest shared = Quick(20);
  listeners.push_back(Send(shared, {.client = "many"}));
  listeners.push_back(Send(shared, {.client = "few"}));
  tier_.Resume();
  for (const ListenerPtr& listener : listeners) (void)listener->Wait();
  const std::vector<std::string> keys = tier_.read_keys();
  const std::string key = ToHex(CacheKeysOf(shared, Instance::Rounded(shared)).rounded);
  EXPECT_LT(std::ranges::find(keys, key) - keys.begin(), 10);
}

}  // namespace
}  // namespace stowage
