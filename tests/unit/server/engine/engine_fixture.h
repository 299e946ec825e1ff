// An engine with a cache tier in memory, and requests to send it: the fixture of the tests of the
// service without gRPC, threads included, which run under ThreadSanitizer.
#ifndef STOWAGE_TESTS_UNIT_SERVER_ENGINE_ENGINE_FIXTURE_H_
#define STOWAGE_TESTS_UNIT_SERVER_ENGINE_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/service/results.h"
#include "server/engine/engine.h"
#include "solver/bounds/memory_range.h"
#include "tests/support/chains.h"
#include "tests/support/counting_observer.h"
#include "tests/support/fake_tier.h"
#include "tests/support/status_matchers.h"

namespace stowage {

// Records the events of one request and waits for its end.
class RecordingListener final : public SolveListener {
 public:
  using Result = absl::StatusOr<SolveResult>;

  void Queued(size_t) override { ++queued; }
  void Running(double fraction) override { progress = fraction; }
  void Improved(const std::shared_ptr<const Answer>&) override { ++improvements; }
  void Done(Result result) override { promise_.set_value(std::move(result)); }

  // The result of Done(); an error where it is not called in time.
  Result Wait() {
    constexpr std::chrono::seconds kLong{60};
    std::future<Result> result = promise_.get_future();
    if (result.wait_for(kLong) != std::future_status::ready) {
      return absl::InternalError("the engine did not call Done()");
    }
    return result.get();
  }

  std::atomic<int> queued{0};
  std::atomic<int> improvements{0};
  std::atomic<double> progress{-1};

 private:
  std::promise<Result> promise_;
};
using ListenerPtr = std::shared_ptr<RecordingListener>;

class EngineTest : public testing::Test {
 protected:
  ListenerPtr Send(SolveRequest request, Caller caller = {}) {
    auto listener = std::make_shared<RecordingListener>();
    engine_.Solve(std::move(request), std::move(caller), listener);
    return listener;
  }
  // The answer, with where it came from.
  SolveResult Answered(SolveRequest request) {
    absl::StatusOr<SolveResult> result = Send(std::move(request))->Wait();
    EXPECT_THAT(result, IsOk());
    return result.ok() ? *std::move(result) : SolveResult{};
  }
  void WaitUntilRunning(size_t solves) {
    while (engine_.stats().solves.running < solves) std::this_thread::yield();
  }

  // Takes minutes unless it is stopped.
  static SolveRequest Endless(int variant = 0) {
    Chain chain = EqualChain(600);
    for (Stage& stage : chain.stages) stage.saved_bytes = 1'000'000;
    chain.input_bytes += variant;
    return {chain, Memory(90'000'000), "rotor", {.memory_slots = 1000}};
  }
  // Nothing that is found at once fits.
  static SolveRequest EndlessWithoutResults() {
    SolveRequest request = Endless();
    request.platform.memory_bytes = FloorOfMemory(request.chain).bytes + 20;
    return request;
  }
  // Some seconds, and it soon has something to show.
  static SolveRequest SlowWithResults(int stages = 400) {
    Chain chain = EqualChain(stages);
    for (size_t i = 0; i < chain.stages.size(); ++i) {
      chain.stages[i].saved_bytes = 1'000'000 + 1000 * static_cast<int64_t>(i * 37 % 101);
      chain.stages[i].forward_seconds = 1 + static_cast<double>(i * 53 % 17) / 10;
    }
    Platform platform = Memory(100'000'000);
    platform.offload_bytes_per_second = 400'000;
    return {chain, platform, "auto", {}};
  }
  static SolveRequest Quick(int variant = 0) {
    SolveRequest request = {EqualChain(10), Memory(150), "rotor", {}};
    request.chain.stages[0].forward_seconds += variant;
    return request;
  }
  // Some tenths of a second.
  static SolveRequest Slow() {
    SolveRequest request = Endless();
    request.platform.memory_bytes = 30'000'000;
    request.options.memory_slots = 150;
    request.options.time_precision = 0.01;
    return request;
  }
  // Rounds to the same instance.
  static SolveRequest Similar(SolveRequest request, double factor = 1.0001) {
    request.options.time_precision = 0.01;
    request.chain.stages[0].forward_seconds *= factor;
    return request;
  }
  // One of many that round to the same instance.
  static SolveRequest OfRank(int rank, SolveRequest request) {
    return Similar(std::move(request), 1 + 1e-7 * rank);
  }
  // Keeps all quick threads, and those of the tiers, until the tier resumes: they have finished
  // what they did before.
  void BlockQuickThreads(Engine& engine, int variant = 5000) {
    tier_.Pause();
    for (int i = 0; i < 2; ++i) {
      blockers_.push_back(std::make_shared<RecordingListener>());
      engine.Solve(Quick(variant + i), {.client = "blocker"}, blockers_.back());
      engine.Simulate({EqualChain(2), Memory(100), Ops("S1 S2 S3 B3 B2 B1")}, {.client = "blocker"},
                      [this](const auto& /*result*/) { tier_.AwaitResume(); });
    }
    while (tier_.blocked() < 4) std::this_thread::yield();
  }
  void BlockQuickThreads() { BlockQuickThreads(engine_); }
  static SolveRequest Noisy(double factor) {
    SolveRequest request = Quick();
    request.options.time_precision = 0.01;
    for (Stage& stage : request.chain.stages) stage.forward_seconds *= factor;
    return request;
  }

  static constexpr std::chrono::seconds kLong{60};
  static constexpr ClientLimits kOneSolve{.calls_per_second = {}, .solves = 1};
  static constexpr int kRanks = 1100;  // more than a client may have waiting on quick threads

  std::vector<ListenerPtr> blockers_;
  std::array<std::stop_source, 3> stops_;  // of callers
  CountingObserver observer_;
  FakeTier tier_;
  AnswerCache cache_{{2 << 20}, {{"disk", Origin::Source::kDiskCache, &tier_}}, observer_};
  Engine engine_{{.threads = 2,
                  .queue_length = 4,
                  .solve_bytes = int64_t{16} << 30,
                  .all_solves_bytes = int64_t{64} << 30,
                  .turn_seconds = 1e6,
                  .request_bytes = int64_t{1} << 30},
                 &cache_,
                 &observer_};
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_UNIT_SERVER_ENGINE_ENGINE_FIXTURE_H_
