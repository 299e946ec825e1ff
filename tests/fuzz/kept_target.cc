#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/plan_file.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "proto/convert/stored_answer.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/fuzz/targets.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

// The one question that all answers here are to.
SolveRequest Question() {
  SolveRequest question;
  question.chain = SmallChain();
  question.platform.memory_bytes = 100;
  question.solver = "rotor";
  return question;
}

v1::SolveRequest QuestionMessage() {
  const SolveRequest question = Question();
  v1::SolveRequest message;
  *message.mutable_chain() = ToMessage(question.chain);
  *message.mutable_platform() = ToMessage(question.platform);
  message.set_solver(question.solver);
  return message;
}

void RequireFits(const Schedule& schedule) {
  const SolveRequest question = Question();
  const auto judged = Simulate(question.chain, question.platform, schedule);
  Require(judged.ok() && judged->feasible(), "what was kept does not fit");
}

void TakeStored(absl::string_view bytes) {
  v1::StoredAnswer stored;
  if (!stored.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const std::optional<Answer> known = FromStored(stored);
  if (!known.has_value()) return;
  for (const KnownFor known_for : {KnownFor::kThisRequest, KnownFor::kOneLikeIt}) {
    const std::optional<Answer> answer = AnswerFromKnown(Question(), *known, known_for);
    if (!answer.has_value()) continue;
    if (answer->outcome != Outcome::kInfeasible) RequireFits(answer->schedule);
    ToMessage(*answer, {});
  }
}

void TakePlan(absl::string_view bytes) {
  static const auto& folder = *new TempFolder;
  const v1::SolveRequest question = QuestionMessage();
  folder.Write(PlanFileName(question), std::string(bytes));
  const absl::StatusOr<v1::SavedPlan> plan = LoadPlan(folder.Path(""), question);
  if (!plan.ok()) return;
  std::vector<FieldViolation> violations;
  RequireFits(FromMessage(plan->response().schedule(), &violations));
  Require(violations.empty(), "operations of no kind");
  Require(plan->response().outcome() == v1::OPTIMAL || plan->response().outcome() == v1::FEASIBLE,
          "a schedule of what is infeasible");
}

}  // namespace

void FuzzKept(absl::string_view bytes) {
  if (bytes.empty()) return;
  const bool stored = static_cast<unsigned char>(bytes[0]) % 2 == 0;
  stored ? TakeStored(bytes.substr(1)) : TakePlan(bytes.substr(1));
}

std::vector<std::string> KeptSeeds() {
  const auto answer = AnswerRequest(Question(), {});
  if (!answer.ok()) std::abort();
  v1::SavedPlan plan;
  *plan.mutable_request() = QuestionMessage();
  *plan.mutable_response() = ToMessage(*answer, {});
  const TempFolder folder;
  if (!SavePlan(folder.Path(""), plan).ok()) std::abort();
  return {std::string(1, '\0') + ToStored(*answer).SerializeAsString(),
          "\1" + ReadFile(folder.Path(PlanFileName(plan.request())))};
}

}  // namespace stowage
