#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/saved_plan/plan_file.h"
#include "proto/convert/answer_message.h"
#include "server/cache/tiers/stored_answer.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/checked_answer.h"
#include "tests/fuzz/targets.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

// The request of all stored answers.
SolveRequest TheRequest() {
  SolveRequest request;
  request.chain = SmallChain();
  request.platform.memory_bytes = 100;
  request.solver = "rotor";
  return request;
}

void RequireFits(const Schedule& schedule) {
  const SolveRequest request = TheRequest();
  const auto simulation = Simulate(request.chain, request.platform, schedule);
  Require(simulation.ok() && simulation->feasible(), "a stored schedule does not fit");
}

void TakeStored(absl::string_view bytes) {
  const CachedAnswerPtr known = DecodeAnswer(bytes, "owner");
  if (known == nullptr) return;
  for (const auto reuse : {ReuseAnswer, ReuseExactAnswer}) {
    const std::optional<Answer> answer =
        reuse(TheRequest(), ChainUnits(TheRequest().chain), known->answer);
    if (!answer.has_value()) continue;
    if (answer->outcome != Outcome::kInfeasible) RequireFits(answer->schedule);
    ToMessage({std::make_shared<const Answer>(*answer), {}}, TheRequest().platform);
  }
}

void TakePlan(absl::string_view bytes) {
  static const auto& folder = *new TempFolder;
  const SolveRequest request = TheRequest();
  folder.Write(PlanFileName(request), std::string(bytes));
  const absl::StatusOr<SavedPlan> plan = LoadPlan(folder.Path(""), request);
  if (!plan.ok()) return;
  RequireFits(plan->result.answer->schedule);
  Require(plan->result.answer->outcome != Outcome::kInfeasible,
          "an infeasible plan has a schedule");
}

}  // namespace

void FuzzStored(absl::string_view bytes) {
  if (bytes.empty()) return;
  const bool stored = static_cast<unsigned char>(bytes[0]) % 2 == 0;
  stored ? TakeStored(bytes.substr(1)) : TakePlan(bytes.substr(1));
}

std::vector<std::string> StoredSeeds() {
  const SolveRequest request = TheRequest();
  const auto answer = AnswerRequest(request, {});
  if (!answer.ok()) std::abort();
  const SavedPlan plan{{std::make_shared<const Answer>(*answer), {}}};
  const TempFolder folder;
  if (!SavePlan(folder.Path(""), request, plan).ok()) std::abort();
  return {std::string(1, '\0') + EncodeAnswer({*answer, {}}),
          "\1" + ReadFile(folder.Path(PlanFileName(request)))};
}

}  // namespace stowage
