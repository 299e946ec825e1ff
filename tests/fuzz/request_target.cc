#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "proto/service/execution_report.h"
#include "proto/service/results.h"
#include "server/rpc/messages/message_limits.h"
#include "server/rpc/messages/read_request.h"
#include "solver/bounds/memory_range.h"
#include "solver/export/export.h"
#include "solver/export/targets.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/checked_answer.h"
#include "solver/solve/find_frontier.h"
#include "tests/fuzz/targets.h"

namespace stowage {
namespace {

constexpr int kMaxSmallStages = 4;
constexpr size_t kMaxPoints = 8;

// As the server reads a request; false: it is refused. A refusal must say why.
template <typename Message, typename Request>
bool Read(absl::string_view bytes, Request* request) {
  Message message;
  CallRecord record;
  const absl::Status read = ReadRequest(bytes, RequestLimits(), &record, &message, request);
  if (!CountFields(bytes, *Message::descriptor()).empty()) {
    Require(!read.ok(), "a request of too many fields was parsed");
    Require(bytes.size() > size_t{2} * kMaxStages, "a short request has too many fields");
  }
  if (!read.ok()) Require(read.message().size() > 10, "an error without a reason");
  return read.ok();
}

// The plan fits where there is one, and whatever is written for it can be sent.
void ExportAndCheck(const ExportRequest& request) {
  const std::optional<SolveRequest> solve = PlanSolve(request, {});
  absl::StatusOr<TargetPlan> plan;
  if (!solve.has_value()) {
    plan = FindSetting(request);
  } else if (const auto answer = AnswerRequest(*solve, SmallContext()); answer.ok()) {
    plan = PlanFrom(request, *answer);
  } else {
    return Require(absl::IsResourceExhausted(answer.status()), answer.status().ToString());
  }
  Require(plan.ok(), plan.status().ToString());
  const absl::StatusOr<Export> exported = ExportOf(request, *plan, Answer());
  Require(exported.ok(), exported.status().ToString());
  Require(exported->text.empty() != exported->exported.has_value(), "a plan without its text");
  if (exported->exported.has_value()) Require(exported->exported->fits, "a plan over the budget");
  v1::ExportedPlan message;
  Fill(*exported, &message);
  Require(!message.SerializeAsString().empty(), "no message");
}

void FuzzSolve(absl::string_view bytes) {
  SolveOrExport request;
  if (!Read<v1::SolveRequest>(bytes, &request)) return;
  SolveAndCheck(request.solve);
  const bool small = request.solve.chain.length() <= kMaxSmallStages;
  if (small && request.exported != nullptr) ExportAndCheck(*request.exported);
}

void FuzzFrontier(absl::string_view bytes) {
  FrontierRequest request;
  if (!Read<v1::FrontierRequest>(bytes, &request)) return;
  if (request.chain.length() > kMaxSmallStages) return;
  request.points = std::min<int>(request.points, kMaxPoints);
  if (request.budgets.size() > kMaxPoints) request.budgets.resize(kMaxPoints);
  const absl::StatusOr<Frontier> frontier = FindFrontier(request, SmallContext());
  if (!frontier.ok()) {
    return Require(absl::IsResourceExhausted(frontier.status()), frontier.status().ToString());
  }
  Require(frontier->rejected.empty(), "a solver's schedule was refused by the simulator");
  const FrontierPoint* last = nullptr;
  for (const FrontierPoint& point : frontier->points) {
    if (point.outcome == Outcome::kInfeasible) continue;
    Require(point.prediction.peak_memory_bytes <= point.memory_bytes, "a point over its budget");
    if (last != nullptr) {
      Require(point.prediction.makespan_seconds <= last->prediction.makespan_seconds,
              "more memory, more time");
    }
    last = &point;
  }
  ToMessage(FrontierResult{*frontier, {}});
}

void FuzzSimulate(absl::string_view bytes) {
  SimulateRequest request;
  if (!Read<v1::SimulateRequest>(bytes, &request)) return;
  const auto result = SimulateAndExplain(request.chain, ChainUnits(request.chain), request.platform,
                                         request.schedule);
  if (!result.ok()) return;
  Require(result->simulation.prediction.peak_memory_bytes >= FloorOfMemory(request.chain).bytes,
          "a peak below the floor");
  ToMessage(*result);
}

void FuzzReport(absl::string_view bytes) {
  ExecutionReport report;
  if (!Read<v1::ReportExecutionRequest>(bytes, &report)) return;
  Require(report.time_error() >= -1 && report.peak_error() >= -1, "an error that is none");
}

}  // namespace

void FuzzRequest(absl::string_view bytes) {
  if (bytes.empty()) return;
  constexpr void (*kMethods[])(absl::string_view) = {FuzzSolve, FuzzFrontier, FuzzSimulate,
                                                     FuzzReport};
  kMethods[static_cast<unsigned char>(bytes[0]) % 4](bytes.substr(1));
}

std::vector<std::string> RequestSeeds() {
  std::vector<std::string> seeds;
  v1::SolveRequest solve;
  *solve.mutable_chain() = ToMessage(SmallChain());
  solve.mutable_platform()->set_memory_bytes(100);
  for (const char* solver : {"", "rotor", "revolve", "periodic", "pofo", "offload_dynprog"}) {
    solve.set_solver(solver);
    for (const double rate : {0.0, 10.0}) {
      solve.mutable_platform()->set_offload_bytes_per_second(rate);
      solve.mutable_options()->set_memory_slots(rate > 0 ? 0 : 20);
      seeds.push_back("\1" + solve.SerializeAsString());
      seeds.back()[0] = 0;
    }
  }
  for (const Target& target : AllTargets()) {
    solve.set_export_for(std::string(target.name));
    solve.set_export_layers("1:3");
    seeds.push_back("\1" + solve.SerializeAsString());
    seeds.back()[0] = 0;
  }
  v1::FrontierRequest frontier;
  *frontier.mutable_chain() = solve.chain();
  frontier.set_points(3);
  seeds.push_back("\1" + frontier.SerializeAsString());
  v1::SimulateRequest simulate;
  *simulate.mutable_chain() = solve.chain();
  *simulate.mutable_platform() = solve.platform();
  SolveRequest offloading;
  offloading.chain = SmallChain();
  offloading.platform = FromMessage(solve.platform());
  offloading.solver = "offload_greedy";
  const auto answer = AnswerRequest(offloading, {});
  if (!answer.ok()) std::abort();
  *simulate.mutable_schedule() = ToMessage(answer->schedule);
  seeds.push_back("\2" + simulate.SerializeAsString());
  v1::ReportExecutionRequest report;
  report.set_predicted_step_seconds(1);
  report.set_measured_step_seconds(1.5);
  report.set_predicted_peak_bytes(100);
  report.set_measured_peak_bytes(110);
  report.set_job("job");
  seeds.push_back("\3" + report.SerializeAsString());
  return seeds;
}

}  // namespace stowage
