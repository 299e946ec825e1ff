#include "client/c/stowage.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/c/call.h"
#include "client/c/questions.h"
#include "client/c/replies.h"
#include "client/export/local_export.h"
#include "client/lib/local_scheduler.h"
#include "client/lib/memory_budget.h"
#include "client/lib/saved_plan/plan_reuse.h"
#include "solver/algorithms/kept_operators.h"
#include "solver/base/fnv1a.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/export/targets.h"
#include "solver/json/json_reader.h"
#include "solver/json/json_text.h"
#include "solver/json/print_json.h"
#include "solver/model/chain_warnings.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

std::string ViolationsEvent(const std::vector<FieldViolation>& violations) {
  return ErrorEvent(ViolationsStatus(violations), violations);
}

absl::string_view TextOf(const char* text, size_t size) {
  return text == nullptr ? absl::string_view() : absl::string_view(text, size);
}

std::string LastEvent(const absl::StatusOr<OrderedJson>& reply) {
  return reply.ok() ? EventOf("result", *reply) : ErrorEvent(reply.status());
}

// The event that says what is wrong with a request; empty: nothing is, and `asked` is read.
template <typename Asked>
std::string Read(absl::string_view text, Asked* asked) {
  if (const auto violation = JsonTextViolation("", &text); violation.has_value()) {
    return ViolationsEvent({*violation});
  }
  const std::vector<FieldViolation> violations =
      ReadQuestion(nlohmann::json::parse(text.begin(), text.end()), asked);
  return violations.empty() ? "" : ViolationsEvent(violations);
}

// A call that has ended with what `make_event` returns. Null where there is no memory for it.
template <typename MakeEvent>
stowage_call* Ended(MakeEvent make_event) {
  try {
    try {
      return new stowage_call(make_event());
    } catch (const std::exception& error) {
      return new stowage_call(ErrorEvent(ErrorOf(error)));
    }
  } catch (...) {
    return nullptr;
  }
}

// A call that has ended with the answer to a question that takes little time.
template <typename Asked>
stowage_call* Answered(const char* text, size_t size, std::string (*answer)(const Asked& asked)) {
  return Ended([&] {
    Asked asked;
    std::string wrong = Read(TextOf(text, size), &asked);
    return wrong.empty() ? answer(asked) : wrong;
  });
}

// Starts a call that takes time: `work` gives its result. Looks whether it is cancelled between
// reading, working and writing, each of which may take a second for a million operations.
template <typename Asked>
stowage_call* Start(const char* text, size_t size,
                    absl::StatusOr<OrderedJson> (*work)(const Asked& asked,
                                                        const LocalOptions& options,
                                                        stowage_call& call)) {
  try {
    return new stowage_call([text = std::string(TextOf(text, size)), work](
                                stowage_call& call, const std::stop_token& stop) -> std::string {
      Asked asked;
      std::string wrong = Read(text, &asked);
      if (!wrong.empty()) return wrong;
      if (stop.stop_requested()) return "";
      const Limits& limits = asked.limits;
      const auto reply = work(asked, {limits.working_bytes, limits.timeout_seconds, stop}, call);
      return stop.stop_requested() ? "" : LastEvent(reply);
    });
  } catch (const std::exception& error) {  // there is no thread for it
    return Ended([&error] { return ErrorEvent(ErrorOf(error)); });
  }
}

// An answer to `request` that no scheduler returned.
SolveResult ResultFor(const SolveRequest& request, Answer answer) {
  return {std::make_shared<const Answer>(std::move(answer)), Origin(),
          ChainWarnings(request.chain)};
}

absl::StatusOr<OrderedJson> Solve(const SolveQuestion& asked, const LocalOptions& options,
                                  stowage_call& call) {
  SolveCall events;
  events.running = [&call](absl::string_view solver, double fraction) {
    JsonObject progress;
    progress.Field("solver", solver);
    progress.Field("fraction", fraction);
    call.SetProgress(EventOf("progress", progress.Take()));
  };
  if (asked.stream) {
    events.improved = [&](const Answer& best) {
      call.Add(
          EventOf("improved", ReplyOf(ResultFor(asked.request, best), asked.request.platform)));
    };
  }
  ASSIGN_OR_RETURN(const SolveResult result, LocalScheduler(options).Solve(asked.request, events));
  return ReplyOf(result, asked.request.platform);
}

absl::StatusOr<OrderedJson> FindFrontier(const FrontierQuestion& asked, const LocalOptions& options,
                                         stowage_call& /*call*/) {
  ASSIGN_OR_RETURN(const FrontierResult result,
                   LocalScheduler(options).FindFrontier(asked.request));
  return ReplyOf(result);
}

absl::StatusOr<OrderedJson> Simulate(const SimulateQuestion& asked, const LocalOptions& options,
                                     stowage_call& /*call*/) {
  ASSIGN_OR_RETURN(const ExplainedSimulation result,
                   LocalScheduler(options).Simulate(asked.request));
  return ReplyOf(result);
}

absl::StatusOr<OrderedJson> ExportPlan(const ExportQuestion& asked, const LocalOptions& options,
                                       stowage_call& /*call*/) {
  const SolveRequest& solve = asked.request;
  ExportRequest request{FindTarget(asked.target), solve.chain, solve.platform, {}};
  ASSIGN_OR_RETURN(request.stages, ParseStages(*request.target, asked.layers, request.chain));
  ASSIGN_OR_RETURN(const Export exported, MakeExport(request, options));
  return ReplyOf(exported);
}

std::string ReuseEvent(const ReuseQuestion& asked) {
  absl::StatusOr<Answer> answer = ReusePlan(asked.plan, asked.request);
  if (!answer.ok()) return ErrorEvent(answer.status());
  return EventOf("result",
                 ReplyOf(ResultFor(asked.request, *std::move(answer)), asked.request.platform));
}

std::string WaysEvent(const WaysQuestion& asked) {
  const auto count = static_cast<size_t>(asked.count);
  return EventOf("result", ReplyOf(ChooseKept(asked.operators, asked.most_bytes, count)));
}

// Of {"json":{…}}. Not a question, which would have its members in another order.
std::string PrintEvent(absl::string_view text) {
  if (const auto violation = JsonTextViolation("", &text); violation.has_value()) {
    return ViolationsEvent({*violation});
  }
  const OrderedJson request = OrderedJson::parse(text.begin(), text.end());
  const auto json = request.find("json");
  if (json == request.end() || request.size() != 1) {
    return ViolationsEvent({{"json", "is missing, or not alone; give what to print"}});
  }
  JsonObject reply;
  reply.Field("text", PrintJson(*json));
  return EventOf("result", reply.Take());
}

std::string MemoryEvent(const MemoryQuestion& asked) {
  JsonObject reply;
  reply.Field("floor_bytes", FloorOfMemory(asked.chain).bytes);
  reply.Field("most_bytes", StoreAllPeakBytes(asked.chain));
  if (asked.budget.has_value()) {
    const absl::StatusOr<int64_t> budget = ParseBudget(*asked.budget, asked.chain);
    if (!budget.ok()) return ViolationsEvent({{"budget", std::string(budget.status().message())}});
    reply.Field("budget_bytes", *budget);
  }
  return EventOf("result", reply.Take());
}

std::string UnitsEvent(const UnitsQuestion& asked) {
  JsonObject reply;
  if (asked.size.has_value()) {
    const absl::StatusOr<int64_t> bytes = ParseBytes(*asked.size);
    if (!bytes.ok()) return ViolationsEvent({{"size", std::string(bytes.status().message())}});
    reply.Field("bytes", *bytes);
  } else {
    reply.Field("text", asked.bytes.has_value() ? FormatBytes(*asked.bytes)
                                                : FormatSeconds(*asked.seconds));
  }
  return EventOf("result", reply.Take());
}

std::string CatalogEvent(const NoQuestion& /*asked*/) {
  OrderedJson solvers = OrderedJson::array();
  for (const SolverInfo& info : AllSolvers()) solvers.push_back(ReplyOf(info.description));
  OrderedJson targets = OrderedJson::array();
  for (const Target& target : AllTargets()) targets.push_back(ReplyOf(target));
  JsonObject reply;
  reply.Field("solvers", solvers);
  reply.Field("targets", targets);
  return EventOf("result", reply.Take());
}

}  // namespace
}  // namespace stowage

using stowage::Answered;
using stowage::Start;

stowage_call* stowage_solve(const char* request, size_t size) {
  return Start<stowage::SolveQuestion>(request, size, &stowage::Solve);
}

stowage_call* stowage_frontier(const char* request, size_t size) {
  return Start<stowage::FrontierQuestion>(request, size, &stowage::FindFrontier);
}

stowage_call* stowage_simulate(const char* request, size_t size) {
  return Start<stowage::SimulateQuestion>(request, size, &stowage::Simulate);
}

stowage_call* stowage_export(const char* request, size_t size) {
  return Start<stowage::ExportQuestion>(request, size, &stowage::ExportPlan);
}

stowage_call* stowage_reuse(const char* request, size_t size) {
  return Answered<stowage::ReuseQuestion>(request, size, &stowage::ReuseEvent);
}

stowage_call* stowage_ways(const char* request, size_t size) {
  return Answered<stowage::WaysQuestion>(request, size, &stowage::WaysEvent);
}

stowage_call* stowage_memory(const char* request, size_t size) {
  return Answered<stowage::MemoryQuestion>(request, size, &stowage::MemoryEvent);
}

stowage_call* stowage_units(const char* request, size_t size) {
  return Answered<stowage::UnitsQuestion>(request, size, &stowage::UnitsEvent);
}

stowage_call* stowage_catalog(const char* request, size_t size) {
  return Answered<stowage::NoQuestion>(request, size, &stowage::CatalogEvent);
}

stowage_call* stowage_check_json(const char* root, const char* text, size_t size) {
  return stowage::Ended([&] {
    absl::string_view json = stowage::TextOf(text, size);
    const auto violation = stowage::JsonTextViolation(root == nullptr ? "" : root, &json);
    return violation.has_value() ? stowage::ViolationsEvent({*violation})
                                 : stowage::EventOf("result", stowage::OrderedJson::object());
  });
}

stowage_call* stowage_print_json(const char* request, size_t size) {
  return stowage::Ended([&] { return stowage::PrintEvent(stowage::TextOf(request, size)); });
}

const char* stowage_next(stowage_call* call, int milliseconds) {
  return call->Next(std::chrono::milliseconds(std::max(milliseconds, 0)));
}

void stowage_cancel(stowage_call* call) { call->Cancel(); }

int stowage_has_ended(stowage_call* call) { return call->HasEnded() ? 1 : 0; }

void stowage_free(stowage_call* call) {
  if (call != nullptr && !call->IsOfAnotherProcess()) delete call;
}

const char* stowage_version(void) { return STOWAGE_VERSION; }

uint64_t stowage_fnv1a(const char* bytes, size_t size) {
  return stowage::Fnv1a(absl::string_view(bytes, size));
}
