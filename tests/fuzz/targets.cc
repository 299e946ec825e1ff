#include "tests/fuzz/targets.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"

namespace stowage {
namespace {

constexpr int kMaxSolvedStages = 6;
constexpr int64_t kMaxSolverBytes = 32 << 20;

}  // namespace

const std::vector<FuzzTarget>& FuzzTargets() {
  static const std::vector<FuzzTarget> targets = {
      {"json", FuzzJson, JsonSeeds},
      {"keys", FuzzKeys, KeysSeeds},
      {"replies", FuzzReplies, RepliesSeeds},
      {"request", FuzzRequest, RequestSeeds},
      {"schedule", FuzzSchedule, ScheduleSeeds},
      {"stored", FuzzStored, StoredSeeds},
  };
  return targets;
}

Chain SmallChain() {
  Stage stage;
  stage.forward_seconds = 1;
  stage.backward_seconds = 2;
  stage.output_bytes = 10;
  stage.saved_bytes = 30;
  Chain chain;
  chain.input_bytes = 10;
  chain.stages.assign(3, stage);
  return chain;
}

SolveContext SmallContext() {
  SolveContext context;
  context.working_bytes = kMaxSolverBytes;
  return context;
}

void Require(bool holds, absl::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", std::string(what).c_str());
  std::abort();
}

void SolveAndCheck(const SolveRequest& request) {
  if (request.chain.length() > kMaxSolvedStages) return;
  // What a solver takes is declared before: sizes that would take more are refused.
  const absl::StatusOr<Answer> answer = AnswerRequest(request, SmallContext());
  if (!answer.ok()) {
    Require(absl::IsResourceExhausted(answer.status()), answer.status().ToString());
    return;
  }
  Require(answer->rejected.empty(), "a solver's schedule was refused by the simulator");
  const int64_t floor = FloorOfMemory(request.chain).bytes;
  if (answer->outcome == Outcome::kInfeasible) {
    Require(answer->schedule.operations.empty(), "a schedule of what is infeasible");
    Require(answer->minimum_memory_bytes.value_or(INT64_MAX) >= floor, "less than the floor");
    return;
  }
  const absl::StatusOr<Simulation> judged =
      Simulate(request.chain, request.platform, answer->schedule);
  Require(judged.ok() && judged->feasible(), "an answer that does not fit");
  Require(judged->prediction.makespan_seconds == answer->prediction.makespan_seconds,
          "a makespan that is not the simulator's");
  Require(judged->prediction.peak_memory_bytes >= floor, "a peak below the floor");
}

}  // namespace stowage
