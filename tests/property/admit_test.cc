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
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
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

// What each part of a step takes, counted here; whether the layers fit, by brute force.
RC_GTEST_PROP(Admit, AgreesWithBruteForce, ()) {
  TrainingJob job{*SmallChains(4)};
  int64_t layers = 0;
  int64_t update = 0;
  int64_t around = 0;
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    const auto phase =
        *rc::gen::element(Phase::kStep, Phase::kLayers, Phase::kUpdate, Phase::kAround);
    const int64_t bytes = *rc::gen::inRange<int64_t>(0, 20);
    job.components.push_back({"", bytes, phase});
    const bool is_step = phase == Phase::kStep;
    layers += is_step || phase == Phase::kLayers ? bytes : 0;
    update += is_step || phase == Phase::kUpdate ? bytes : 0;
    around += is_step || phase == Phase::kAround ? bytes : 0;
  }
  const int64_t outside = std::max(update, around);
  const int64_t memory = *rc::gen::inRange<int64_t>(0, 80);
  const Verdict verdict = Judge(job, memory);
  const bool has_schedule =
      FastestByBruteForce(job.chain, memory - layers, ScheduleClass::kAny).has_value();
  RC_ASSERT((verdict.fit != Fit::kDoesNotFit) == (has_schedule && outside <= memory));
  if (verdict.fit == Fit::kFitsWithPlan) {
    const absl::StatusOr<Simulation> judged =
        Simulate(job.chain, verdict.platform, verdict.plan->schedule);
    RC_ASSERT(judged.ok() && judged->feasible());
    RC_ASSERT(verdict.peak_bytes ==
              std::max(layers + judged->prediction.peak_memory_bytes, outside));
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
