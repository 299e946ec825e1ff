// Whether jobs fit devices, against brute force.
#include "solver/solve/admit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/checked_answer.h"
#include "tests/support/brute_force.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

using Fit = Verdict::Fit;
using Phase = Component::Phase;

Verdict Judge(const TrainingJob& job, int64_t memory) {
  AdmitRequest request;
  request.job = job;
  request.devices.push_back({Memory(memory)});
  if (std::optional<Verdict> verdict = VerdictWithoutPlan(request, 0)) return *verdict;
  absl::StatusOr<Answer> answer = AnswerRequest(PlanRequest(request, 0), {});
  RC_ASSERT(answer.ok());
  return VerdictWithPlan(request, 0, std::make_shared<const Answer>(*std::move(answer)));
}

// What so many micro-batches less one have stored.
int64_t StoredByOthers(const Chain& chain, int64_t copies) {
  int64_t stored = chain.input_bytes;
  for (int l = 1; l <= chain.length() + 1; ++l) stored += chain.stage(l).saved_bytes;
  return (copies - 1) * stored;
}

// What is on the device right before the first backward: that one's memory without what it adds.
int64_t BytesAtTheTurn(const Chain& chain, const ExplainedSimulation& judged, const Answer& plan) {
  size_t turn = 0;
  while (plan.schedule.operations[turn].kind != OperationKind::kBackward) ++turn;
  const int last = chain.length() + 1;
  return judged.timeline[turn].memory_bytes - chain.gradient_bytes(last - 1) -
         chain.gradient_bytes(last) - chain.stage(last).backward_overhead_bytes;
}

// What each part of a step takes, counted here; whether the layers fit, by brute force.
RC_GTEST_PROP(Admit, AgreesWithBruteForce, ()) {
  TrainingJob job{*SmallChains(4)};
  int64_t layers = 0;
  int64_t update = 0;
  int64_t around = 0;
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    const auto phase =
        *rc::gen::element(Phase::kStep, Phase::kLayers, Phase::kUpdate, Phase::kAround);
    int64_t bytes = *rc::gen::inRange<int64_t>(0, 20);
    const int shards = *rc::gen::inRange(0, 4);
    job.components.push_back({"", bytes, phase, shards});
    if (shards > 1) bytes = (bytes + shards - 1) / shards;
    const bool is_step = phase == Phase::kStep;
    layers += is_step || phase == Phase::kLayers ? bytes : 0;
    update += is_step || phase == Phase::kUpdate ? bytes : 0;
    around += is_step || phase == Phase::kAround ? bytes : 0;
  }
  job.in_flight = *rc::gen::element(0, 0, 1, 2, 3);
  const int64_t copies = std::max(1, job.in_flight);
  const int64_t memory = *rc::gen::inRange<int64_t>(0, 80 * copies);
  const Verdict verdict = Judge(job, memory);
  int64_t share = (memory - layers) / copies;
  if (copies > 1) share = std::min(share, (memory - around) / (copies - 1));
  const bool has_schedule = memory >= std::max({layers, update, around}) &&
                            FastestByBruteForce(job.chain, share, ScheduleClass::kAny).has_value();
  const int64_t others = StoredByOthers(job.chain, copies);
  const int64_t plain =
      std::max({layers + StoreAllPeakBytes(job.chain) + others, around + others, update});
  RC_ASSERT((verdict.fit == Fit::kFits) == (plain <= memory));
  RC_ASSERT((verdict.fit != Fit::kDoesNotFit) == (plain <= memory || has_schedule));
  if (verdict.fit == Fit::kFitsWithPlan) {
    const absl::StatusOr<ExplainedSimulation> judged = SimulateAndExplain(
        job.chain, ChainUnits(job.chain), verdict.platform, verdict.plan->schedule);
    RC_ASSERT(judged.ok() && judged->simulation.feasible());
    const int64_t kept = (copies - 1) * BytesAtTheTurn(job.chain, *judged, *verdict.plan);
    const int64_t peak = judged->simulation.prediction.peak_memory_bytes;
    RC_ASSERT(verdict.peak_bytes == std::max({layers + peak + kept, around + kept, update}));
  }
  if (verdict.fit != Fit::kDoesNotFit) RC_ASSERT(verdict.peak_bytes <= memory);
  if (verdict.minimum_memory_bytes.has_value()) {
    const int64_t least = *verdict.minimum_memory_bytes;
    RC_ASSERT(least > memory);
    RC_ASSERT(Judge(job, least).fit != Fit::kDoesNotFit);
    RC_ASSERT(Judge(job, least - 1).fit == Fit::kDoesNotFit);
  }
}

}  // namespace
}  // namespace stowage
