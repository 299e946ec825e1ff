#include "server/rpc/read_request.h"

#include <cmath>
#include <cstddef>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "solver/solve/catalog.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

void Append(std::vector<FieldViolation> more, std::vector<FieldViolation>* violations) {
  for (FieldViolation& violation : more) violations->push_back(std::move(violation));
}

// What is wrong with the size of a message, before anything is converted: that would cost memory.
std::vector<FieldViolation> TooLong(const v1::Chain& chain, int operations) {
  std::vector<FieldViolation> violations;
  if (chain.stages_size() > kMaxStages) violations.push_back(TooManyStages(chain.stages_size()));
  if (operations > kMaxOperations) violations.push_back(TooManyOperations(operations));
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

}  // namespace

void RecordQuestion(const std::string& solver, const v1::Chain& chain, CallRecord& record) {
  if (const SolverInfo* info = FindSolver(solver)) record.solver = info->description.name;
  record.stages = chain.stages_size();
}

absl::Status WithMemory(absl::FunctionRef<void()> convert) {
  try {
    convert();
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    absl::Status status =
        absl::ResourceExhaustedError("the server has too little free memory; try again");
    status.SetPayload(kRejectionPayload, absl::Cord("memory"));
    return status;
  }
}

std::vector<FieldViolation> OverLimits(const QuestionLimits& size, const QuestionLimits& limits) {
  std::vector<FieldViolation> violations;
  // What no server takes is said by Read().
  if (size.stages > limits.stages && size.stages <= kMaxStages) {
    violations.push_back(
        {"chain.stages", absl::StrCat("has ", size.stages, " stages; this server takes at most ",
                                      limits.stages, " (--max-stages)")});
  }
  if (size.memory_slots > limits.memory_slots && size.memory_slots <= kMaxMemorySlots) {
    violations.push_back({"options.memory_slots",
                          absl::StrCat("is ", size.memory_slots, "; this server takes at most ",
                                       limits.memory_slots, " (--max-slots)")});
  }
  return violations;
}

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

std::vector<FieldViolation> Read(const v1::ReportExecutionRequest& message,
                                 ExecutionReport* report) {
  std::vector<FieldViolation> violations = Violations(message);
  if (!violations.empty()) return violations;
  report->fingerprint = message.fingerprint();
  report->agent = message.agent();
  report->job = message.job();
  report->predicted_seconds = message.predicted_step_seconds();
  report->measured_seconds = message.measured_step_seconds();
  report->predicted_peak_bytes = message.predicted_peak_bytes();
  report->measured_peak_bytes = message.measured_peak_bytes();
  return violations;
}

}  // namespace stowage
