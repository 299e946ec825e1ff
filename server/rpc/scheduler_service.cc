#include "server/rpc/scheduler_service.h"

#include <cmath>
#include <cstddef>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/convert/answer.h"
#include "proto/convert/chain.h"
#include "proto/convert/schedule.h"
#include "server/rpc/call.h"
#include "solver/algorithms/catalog.h"
#include "solver/model/validate.h"

namespace stowage {
namespace {

void Append(std::vector<FieldViolation> more, std::vector<FieldViolation>* violations) {
  for (FieldViolation& violation : more) violations->push_back(std::move(violation));
}

// Runs `convert`, and says so when a message is too large for the memory that is left.
template <typename Convert>
absl::Status WithMemory(Convert convert) {
  try {
    convert();
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the server has too little free memory; try again");
  }
}

// What is wrong with the size of a message, before anything is converted: that would cost memory.
std::vector<FieldViolation> TooLong(const v1::Chain& chain, int operations) {
  std::vector<FieldViolation> violations;
  if (chain.stages_size() > kMaxStages) violations.push_back(TooManyStages(chain.stages_size()));
  if (operations > kMaxOperations) violations.push_back(TooManyOperations(operations));
  return violations;
}

// Fills `question` unless there are violations, which it returns.
std::vector<FieldViolation> Read(const v1::SolveRequest& message, SolveRequest* question) {
  std::vector<FieldViolation> violations = TooLong(message.chain(), 0);
  if (!violations.empty()) return violations;
  *question = FromMessage(message, &violations);
  Append(RequestViolations(*question), &violations);
  return violations;
}

std::vector<FieldViolation> Read(const v1::FrontierRequest& message, FrontierRequest* question) {
  std::vector<FieldViolation> violations = TooLong(message.chain(), 0);
  if (!violations.empty()) return violations;
  *question = FromMessage(message);
  return RequestViolations(*question);
}

std::vector<FieldViolation> Read(const v1::SimulateRequest& message, SimulateRequest* question) {
  std::vector<FieldViolation> violations =
      TooLong(message.chain(), message.schedule().operations_size());
  if (!violations.empty()) return violations;
  violations = MissingFields(message.platform());
  *question = {FromMessage(message.chain()), FromMessage(message.platform()),
               FromMessage(message.schedule(), &violations)};
  Append(Violations(question->chain), &violations);
  Append(Violations(question->platform), &violations);
  return violations;
}

std::vector<FieldViolation> Violations(const v1::ReportExecutionRequest& message) {
  constexpr size_t kMostBytes = 256;
  std::vector<FieldViolation> violations;
  const auto positive = [&violations](const char* field, auto value) {
    if (std::isfinite(static_cast<double>(value)) && value > 0) return;
    violations.push_back({field, absl::StrCat("is ", value, "; must be positive")});
  };
  positive("predicted_step_seconds", message.predicted_step_seconds());
  positive("measured_step_seconds", message.measured_step_seconds());
  positive("predicted_peak_bytes", message.predicted_peak_bytes());
  positive("measured_peak_bytes", message.measured_peak_bytes());
  const auto name = [&violations](const char* field, const std::string& value) {
    if (value.size() <= kMostBytes) return;
    violations.push_back({field, absl::StrCat("has ", value.size(), " bytes; at most ", kMostBytes,
                                              " are allowed")});
  };
  name("fingerprint", message.fingerprint());
  name("agent", message.agent());
  name("job", message.job());
  return violations;
}

// Reads a request; ends the call and returns false when that fails.
template <typename Message, typename Question>
bool ReadOrEnd(const Message& message, Question* question, Call* call) {
  call->record().stages = message.chain().stages_size();
  std::vector<FieldViolation> violations;
  const absl::Status read = WithMemory([&] { violations = Read(message, question); });
  if (read.ok() && violations.empty()) return true;
  read.ok() ? call->EndWithViolations(violations) : call->End(read);
  return false;
}

// Only known names reach the log: what else a caller writes may be long, or worse.
void RecordSolver(const std::string& name, CallRecord& record) {
  if (const SolverInfo* info = FindSolver(name)) record.solver = info->description.name;
}

template <typename Result>
void Record(const Timed<Result>& timed, CallRecord& record) {
  record.queue_seconds = timed.queue_seconds;
  record.solve_seconds = timed.solve_seconds;
  record.origin = timed.result.solver;
  record.rejected = timed.result.rejected;
}

}  // namespace

grpc::ServerUnaryReactor* SchedulerService::Solve(grpc::CallbackServerContext* context,
                                                  const v1::SolveRequest* request,
                                                  v1::SolveResponse* response) {
  auto* const call = new Call("Solve", *context, observer_);
  RecordSolver(request->solver(), call->record());
  SolveRequest question;
  if (!ReadOrEnd(*request, &question, call)) return call;
  engine_.Solve(
      std::move(question), call->stop_token(), [call, response](absl::StatusOr<TimedAnswer> timed) {
        if (!timed.ok()) return call->End(timed.status());
        call->End(WithMemory([&] {
          *response = ToMessage(timed->result, {timed->queue_seconds, timed->solve_seconds});
          Record(*timed, call->record());
          call->record().outcome = v1::Outcome_Name(response->outcome());
        }));
      });
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::Frontier(grpc::CallbackServerContext* context,
                                                     const v1::FrontierRequest* request,
                                                     v1::FrontierResponse* response) {
  auto* const call = new Call("Frontier", *context, observer_);
  RecordSolver(request->solver(), call->record());
  FrontierRequest question;
  if (!ReadOrEnd(*request, &question, call)) return call;
  engine_.FindFrontier(
      std::move(question), call->stop_token(),
      [call, response](absl::StatusOr<TimedFrontier> timed) {
        if (!timed.ok()) return call->End(timed.status());
        call->End(WithMemory([&] {
          *response = ToMessage(timed->result, {timed->queue_seconds, timed->solve_seconds});
          Record(*timed, call->record());
        }));
      });
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::Simulate(grpc::CallbackServerContext* context,
                                                     const v1::SimulateRequest* request,
                                                     v1::SimulateResponse* response) {
  auto* const call = new Call("Simulate", *context, observer_);
  SimulateRequest question;
  if (!ReadOrEnd(*request, &question, call)) return call;
  engine_.Simulate(std::move(question), call->stop_token(),
                   [call, response](absl::StatusOr<ExplainedSimulation> result) {
                     if (!result.ok()) return call->End(result.status());
                     call->End(WithMemory([&] {
                       *response =
                           ToMessage(result->simulation, result->timeline, result->explanation);
                     }));
                   });
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::ListSolvers(grpc::CallbackServerContext* context,
                                                        const v1::ListSolversRequest*,
                                                        v1::ListSolversResponse* response) {
  auto* const call = new Call("ListSolvers", *context, observer_);
  for (const SolverInfo& info : AllSolvers()) {
    *response->add_solvers() = ToMessage(info.description);
  }
  call->End(absl::OkStatus());
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::ReportExecution(
    grpc::CallbackServerContext* context, const v1::ReportExecutionRequest* request,
    v1::ReportExecutionResponse* /*response*/) {
  auto* const call = new Call("ReportExecution", *context, observer_);
  const std::vector<FieldViolation> violations = Violations(*request);
  if (!violations.empty()) {
    call->EndWithViolations(violations);
    return call;
  }
  observer_.ExecutionReported({.id = call->record().id,
                               .fingerprint = request->fingerprint(),
                               .agent = request->agent(),
                               .job = request->job(),
                               .predicted_seconds = request->predicted_step_seconds(),
                               .measured_seconds = request->measured_step_seconds(),
                               .predicted_peak_bytes = request->predicted_peak_bytes(),
                               .measured_peak_bytes = request->measured_peak_bytes()});
  call->End(absl::OkStatus());
  return call;
}

}  // namespace stowage
