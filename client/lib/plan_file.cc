#include "client/lib/plan_file.h"

#include <cctype>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/request_message.h"
#include "solver/base/file.h"
#include "solver/base/status_macros.h"
#include "solver/model/chain_warnings.h"
#include "solver/model/validate.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "solver/solve/request_violations.h"
#include "stowage/v1/plan.pb.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

// By how much the overhead (Prediction::overhead) may exceed that of the saved plan.
constexpr double kMoreOverhead = 0.01;

fs::path PathOf(const std::string& directory, const SolveRequest& request) {
  return fs::path(directory) / PlanFileName(request);
}

void ClearNameAndTimes(Stage* stage) {
  stage->name.clear();
  stage->forward_seconds = 0;
  stage->backward_seconds = 0;
  stage->replay_seconds.reset();
  if (!stage->graph.has_value()) return;
  stage->graph->forward_seconds = 0;
  stage->graph->backward_seconds = 0;
}

// The part of a request that must be equal for a plan to serve it: all but times, rates and names.
SolveRequest WithoutTimes(SolveRequest request) {
  Chain& chain = request.chain;
  chain.name.clear();
  chain.graph_entry_seconds = 0;
  for (Stage& stage : chain.stages) ClearNameAndTimes(&stage);
  ClearNameAndTimes(&chain.loss);
  Platform& platform = request.platform;
  platform.name.clear();
  platform.offload_bytes_per_second = 0;
  platform.prefetch_bytes_per_second.reset();
  platform.transfer_latency_seconds = 0;
  return request;
}

bool Equal(const SolveRequest& a, const SolveRequest& b) {
  return a.chain == b.chain && a.platform == b.platform && a.solver == b.solver &&
         a.options == b.options;
}

absl::StatusOr<v1::SavedPlan> Read(const fs::path& path) {
  const absl::StatusOr<std::string> bytes = ReadWholeFile(path.string());
  if (absl::IsNotFound(bytes.status())) {
    return absl::NotFoundError(absl::StrCat("there is no ", path.string()));
  }
  if (!bytes.ok()) {
    return absl::DataLossError(absl::StrCat("cannot read ", bytes.status().message()));
  }
  v1::SavedPlan plan;
  if (!plan.ParseFromString(*bytes) || !plan.has_request() || !plan.has_response()) {
    return absl::DataLossError(absl::StrCat(path.string(), " is not a saved plan"));
  }
  return plan;
}

// 0 for a solver that this program does not have.
int VersionOf(const std::string& solver) {
  const SolverInfo* const info = FindSolver(solver);
  return info != nullptr ? info->description.version : 0;
}

}  // namespace

// The name only tells a directory's plans apart; LoadPlan() compares the requests themselves.
std::string PlanFileName(const SolveRequest& request) {
  constexpr size_t kMaxLetters = 80;
  std::string name;
  for (const char letter : request.chain.name.substr(0, kMaxLetters)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    name.push_back(plain || letter == '_' ? letter : '-');
  }
  return absl::StrCat(name.empty() ? "chain" : name, "-", request.chain.length(), "-",
                      request.platform.memory_bytes, ".plan");
}

absl::Status SavePlan(const std::string& directory, const SolveRequest& request,
                      const SavedPlan& plan) {
  v1::SavedPlan message;
  *message.mutable_request() = ToMessage(request);
  *message.mutable_response() = ToMessage(plan.result, request.platform);
  message.set_solved_locally(plan.solved_locally);
  message.set_solver_version(VersionOf(plan.result.answer->solver));
  const fs::path path = PathOf(directory, request);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot write ", directory, ": ", error.message()));
  }
  return ReplaceFile(path.string(), message.SerializeAsString());
}

// In this order: the file is for an equal request but for times, its solver has not changed, and
// the schedule, simulated with the request's times, fits and is not much worse than it was.
absl::StatusOr<SavedPlan> LoadPlan(const std::string& directory, const SolveRequest& request) {
  const fs::path path = PathOf(directory, request);
  ASSIGN_OR_RETURN(const v1::SavedPlan message, Read(path));
  const auto useless = [&path](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(path.string(), " is of no use: ", why));
  };
  std::vector<FieldViolation> violations;
  const SolveRequest saved_request = FromMessage(message.request(), &violations);
  if (!violations.empty() || !Equal(WithoutTimes(saved_request), WithoutTimes(request))) {
    return useless("it is for other sizes, options or another solver");
  }
  if (message.solver_version() != VersionOf(message.response().origin().solver())) {
    return useless("it is by another version of its solver");
  }
  absl::StatusOr<SolveResult> saved = FromMessage(message.response());
  if (!saved.ok() || saved->answer->outcome == Outcome::kInfeasible ||
      !RequestViolations(request).empty()) {
    return useless("it is not valid");
  }
  // With other times an optimal schedule need not be optimal, and the rounding loss is unknown: the
  // plan is used without that figure.
  const SameInstance same =
      Equal(saved_request, request) ? SameInstance::kExactly : SameInstance::kRounded;
  SolveRequest reusing = request;
  if (same == SameInstance::kRounded) reusing.options.report_rounding_loss = false;
  std::optional<Answer> answer = ReuseAnswer(reusing, *saved->answer, same);
  if (!answer.has_value()) return useless("its schedule does not fit");
  if (answer->prediction.overhead > saved->answer->prediction.overhead + kMoreOverhead) {
    return useless("with these times its schedule loses more than it did");
  }
  if (same == SameInstance::kRounded) answer->rounding_loss.reset();
  return SavedPlan{{std::make_shared<const Answer>(*std::move(answer)), std::move(saved->origin),
                    ChainWarnings(request.chain)},
                   message.solved_locally()};
}

}  // namespace stowage
