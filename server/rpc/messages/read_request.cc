#include "server/rpc/messages/read_request.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "server/events/rejection.h"
#include "solver/base/out_of_memory.h"
#include "solver/base/quote.h"
#include "solver/export/layers.h"
#include "solver/export/targets.h"
#include "solver/solve/catalog.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

// Violations of the API's limits, found before the conversion, which would cost memory.
std::vector<FieldViolation> TooLong(const v1::Chain& chain, int operations) {
  std::vector<FieldViolation> violations;
  if (chain.stages_size() > kMaxStages) violations.push_back(TooManyStages(chain.stages_size()));
  if (operations > kMaxOperations) violations.push_back(TooManyOperations(operations));
  return violations;
}

// Larger sizes than the API allows are left to Convert(), which names the API's limit.
std::vector<FieldViolation> OverLimits(const v1::Chain& chain, int64_t memory_slots,
                                       const RequestLimits& limits) {
  std::vector<FieldViolation> violations;
  const int stages = chain.stages_size();
  if (stages > limits.stages && stages <= kMaxStages) {
    violations.push_back(
        {"chain.stages", absl::StrCat("has ", stages, " stages; this server takes at most ",
                                      limits.stages, " (--max-stages)")});
  }
  if (memory_slots > limits.memory_slots && memory_slots <= kMaxMemorySlots) {
    violations.push_back(
        {"options.memory_slots", absl::StrCat("is ", memory_slots, "; this server takes at most ",
                                              limits.memory_slots, " (--max-slots)")});
  }
  return violations;
}

// Records only names of the catalog: any other text is the caller's own and may be long, and log
// and metrics use the name.
void Record(const std::string& solver, const v1::Chain& chain, CallRecord* record) {
  if (const SolverInfo* info = FindSolver(solver)) record->solver = info->description.name;
  record->stages = chain.stages_size();
}

std::vector<FieldViolation> Violations(const v1::ReportExecutionRequest& message) {
  constexpr size_t kMaxBytes = 256;
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
    if (value.size() <= kMaxBytes) return;
    violations.push_back(
        {field, absl::StrCat("has ", value.size(), " bytes; at most ", kMaxBytes, " are allowed")});
  };
  name("fingerprint", message.fingerprint());
  name("agent", message.agent());
  name("job", message.job());
  return violations;
}

// Sets `exported` where the message asks for it. Requires: the request has no violations.
std::vector<FieldViolation> ConvertExport(const v1::SolveRequest& message,
                                          const SolveRequest& solve,
                                          std::shared_ptr<const ExportRequest>* exported) {
  if (!message.has_export_for()) {
    if (!message.has_export_layers()) return {};
    return {{"export_layers", "is of no use without export_for; set that, or leave both out"}};
  }
  ExportRequest request{
      .target = FindTarget(message.export_for()), .chain = solve.chain, .platform = solve.platform};
  if (request.target == nullptr) {
    return {{"export_for",
             absl::StrCat(Quoted(message.export_for()), " is no target; one of ", TargetNames())}};
  }
  absl::StatusOr<LayerStages> stages =
      ParseStages(*request.target, message.export_layers(), request.chain);
  if (!stages.ok()) return {{"export_layers", std::string(stages.status().message())}};
  request.stages = *stages;
  *exported = std::make_shared<const ExportRequest>(std::move(request));
  return {};
}

}  // namespace

absl::Status WithMemory(absl::FunctionRef<void()> allocate) {
  return UnlessOutOfMemory(
      [&] {
        allocate();
        return absl::OkStatus();
      },
      TooLittleFreeMemory);
}

// Counts before parsing: a message within the limit on bytes could otherwise take a hundred times
// as much memory.
absl::Status ParseMessage(absl::string_view bytes, google::protobuf::Message* message) {
  RETURN_IF_ERROR(InvalidRequest(CountFields(bytes, *message->GetDescriptor())));
  bool parsed = false;
  RETURN_IF_ERROR(WithMemory(
      [&] { parsed = message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())); }));
  if (parsed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the request is not a ",
                                                 message->GetDescriptor()->full_name(),
                                                 "; generate the client from scheduler.proto"));
}

std::vector<FieldViolation> OverLimits(const v1::SolveRequest& message,
                                       const RequestLimits& limits) {
  return OverLimits(message.chain(), message.options().memory_slots(), limits);
}
std::vector<FieldViolation> OverLimits(const v1::FrontierRequest& message,
                                       const RequestLimits& limits) {
  return OverLimits(message.chain(), message.options().memory_slots(), limits);
}
std::vector<FieldViolation> OverLimits(const v1::SimulateRequest& message,
                                       const RequestLimits& limits) {
  return OverLimits(message.chain(), 0, limits);
}
std::vector<FieldViolation> OverLimits(const v1::AdmitRequest& message,
                                       const RequestLimits& limits) {
  return Within("job", OverLimits(message.job().chain(), message.options().memory_slots(), limits));
}
std::vector<FieldViolation> OverLimits(const v1::ReportExecutionRequest& /*message*/,
                                       const RequestLimits& /*limits*/) {
  return {};
}

void Record(const v1::SolveRequest& message, CallRecord* record) {
  Record(message.solver(), message.chain(), record);
}
void Record(const v1::FrontierRequest& message, CallRecord* record) {
  Record(message.solver(), message.chain(), record);
}
void Record(const v1::SimulateRequest& message, CallRecord* record) {
  record->stages = message.chain().stages_size();
}
void Record(const v1::AdmitRequest& message, CallRecord* record) {
  Record(message.solver(), message.job().chain(), record);
}
void Record(const v1::ReportExecutionRequest& /*message*/, CallRecord* /*record*/) {}

// For requests with a chain: checks the API's limits on lengths first, since converting costs
// memory, then converts and validates. Beyond those limits all violations are returned at once.
std::vector<FieldViolation> Convert(const v1::SolveRequest& message, SolveOrExport* request) {
  std::vector<FieldViolation> violations = TooLong(message.chain(), 0);
  if (!violations.empty()) return violations;
  request->solve = FromMessage(message, &violations);
  Append(RequestViolations(request->solve), &violations);
  if (!violations.empty()) return violations;
  return ConvertExport(message, request->solve, &request->exported);
}

std::vector<FieldViolation> Convert(const v1::FrontierRequest& message, FrontierRequest* request) {
  std::vector<FieldViolation> violations = TooLong(message.chain(), 0);
  if (!violations.empty()) return violations;
  *request = FromMessage(message);
  return RequestViolations(*request);
}

std::vector<FieldViolation> Convert(const v1::SimulateRequest& message, SimulateRequest* request) {
  std::vector<FieldViolation> violations =
      TooLong(message.chain(), message.schedule().operations_size());
  if (!violations.empty()) return violations;
  *request = FromMessage(message, &violations);
  Append(Violations(request->chain), &violations);
  Append(Violations(request->platform), &violations);
  return violations;
}

std::vector<FieldViolation> Convert(const v1::AdmitRequest& message, AdmitRequest* request) {
  std::vector<FieldViolation> violations = Within("job", TooLong(message.job().chain(), 0));
  Append(TooMany(message.job().components_size(), message.devices_size()), &violations);
  if (!violations.empty()) return violations;
  *request = FromMessage(message, &violations);
  Append(RequestViolations(*request), &violations);
  return violations;
}

std::vector<FieldViolation> Convert(const v1::ReportExecutionRequest& message,
                                    ExecutionReport* report) {
  std::vector<FieldViolation> violations = Violations(message);
  if (!violations.empty()) return violations;
  report->fingerprint = message.fingerprint();
  report->agent = message.agent();
  report->job = message.job();
  report->predicted_step_seconds = message.predicted_step_seconds();
  report->measured_step_seconds = message.measured_step_seconds();
  report->predicted_peak_bytes = message.predicted_peak_bytes();
  report->measured_peak_bytes = message.measured_peak_bytes();
  return violations;
}

}  // namespace stowage
