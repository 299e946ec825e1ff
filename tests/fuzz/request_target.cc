#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "grpcpp/support/byte_buffer.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "server/rpc/message_limits.h"
#include "server/rpc/read_request.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/find_frontier.h"
#include "tests/fuzz/targets.h"

namespace stowage {
namespace {

constexpr int kMostStages = 4;
constexpr size_t kMostPoints = 8;

// As gRPC reads it; false: it is no message.
template <typename Message>
bool Parse(absl::string_view bytes, Message* message) {
  grpc::Slice slice(bytes.data(), bytes.size());
  grpc::ByteBuffer buffer(&slice, 1);
  // What is counted is what is parsed.
  const bool too_much = !TooMuchOf(buffer, *Message::descriptor()).empty();
  if (too_much) Require(bytes.size() > 2 * kMaxStages, "too much of nothing");
  return !too_much && message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// What the wire gets of a question that is not valid.
void RequireNames(const std::vector<FieldViolation>& violations) {
  for (const FieldViolation& violation : violations) {
    Require(!violation.field.empty() && !violation.problem.empty(), "a violation of nothing");
  }
}

void AskSolve(absl::string_view bytes) {
  v1::SolveRequest message;
  SolveRequest question;
  if (!Parse(bytes, &message)) return;
  const std::vector<FieldViolation> violations = Read(message, &question);
  if (violations.empty()) return SolveAndCheck(question);
  RequireNames(violations);
}

void AskFrontier(absl::string_view bytes) {
  v1::FrontierRequest message;
  FrontierRequest question;
  if (!Parse(bytes, &message)) return;
  const std::vector<FieldViolation> violations = Read(message, &question);
  if (!violations.empty()) return RequireNames(violations);
  if (question.chain.length() > kMostStages) return;
  question.points = std::min<int>(question.points, kMostPoints);
  if (question.budgets.size() > kMostPoints) question.budgets.resize(kMostPoints);
  const absl::StatusOr<Frontier> frontier = FindFrontier(question, SmallContext());
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
  ToMessage(*frontier, {});
}

void AskSimulate(absl::string_view bytes) {
  v1::SimulateRequest message;
  SimulateRequest question;
  if (!Parse(bytes, &message)) return;
  const std::vector<FieldViolation> violations = Read(message, &question);
  if (!violations.empty()) return RequireNames(violations);
  const auto result = SimulateAndExplain(question.chain, question.platform, question.schedule);
  if (!result.ok()) return;
  Require(result->simulation.prediction.peak_memory_bytes >= FloorOfMemory(question.chain).bytes,
          "a peak below the floor");
  ToMessage(result->simulation, result->timeline, result->explanation);
}

void Report(absl::string_view bytes) {
  v1::ReportExecutionRequest message;
  ExecutionReport report;
  if (!Parse(bytes, &message)) return;
  const std::vector<FieldViolation> violations = Read(message, &report);
  if (!violations.empty()) return RequireNames(violations);
  Require(report.time_error() >= -1 && report.peak_error() >= -1, "an error that is none");
}

}  // namespace

void FuzzRequest(absl::string_view bytes) {
  if (bytes.empty()) return;
  constexpr void (*kMethods[])(absl::string_view) = {AskSolve, AskFrontier, AskSimulate, Report};
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
