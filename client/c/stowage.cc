#include "client/c/stowage.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
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
#include "client/lib/plan_reuse.h"
#include "solver/algorithms/kept_choice.h"
#include "solver/base/fnv1a.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/export/targets.h"
#include "solver/json/json_reader.h"
#include "solver/json/json_text.h"
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

// Of CheckJsonText(): "chain.name: is given twice".
std::string NotJsonEvent(const absl::Status& status) {
  const std::string message(status.message());
  const size_t colon = std::min(message.find(": "), message.size());
  return ErrorEvent(status, {{message.substr(0, colon),
                              message.substr(std::min(colon + 2, message.size()))}});
}

std::string LastEvent(const absl::StatusOr<OrderedJson>& reply) {
  return reply.ok() ? EventOf("result", *reply) : ErrorEvent(reply.status());
}

// Reads a question of type `Asked`. Null: `call` is that of its errors.
template <typename Asked>
std::unique_ptr<Asked> Read(const char* text, size_t size, stowage_call** call) {
  const absl::StatusOr<nlohmann::json> json = ParseJson("request", TextOf(text, size));
  if (!json.ok()) {
    *call = new stowage_call(NotJsonEvent(json.status()));
    return nullptr;
  }
  auto asked = std::make_unique<Asked>();
  const std::vector<FieldViolation> violations = ReadQuestion(*json, asked.get());
  if (violations.empty()) return asked;
  *call = new stowage_call(ViolationsEvent(violations));
  return nullptr;
}

// Starts a call that takes time: `work` gives its result.
template <typename Asked>
stowage_call* Start(const char* text, size_t size,
                    absl::StatusOr<OrderedJson> (*work)(const Asked& asked,
                                                        const LocalOptions& options,
                                                        stowage_call& call)) {
  try {
    stowage_call* ended = nullptr;
    std::shared_ptr<const Asked> asked = Read<Asked>(text, size, &ended);
    if (asked == nullptr) return ended;
    return new stowage_call([asked, work](stowage_call& call, const std::stop_token& stop) {
      const Limits& limits = asked->limits;
      const LocalOptions options{limits.working_bytes, limits.timeout_seconds, stop};
      return LastEvent(work(*asked, options, call));
    });
  } catch (const std::exception&) {  // no memory, or no thread
    return nullptr;
  }
}

// A call that has ended when it returns.
template <typename Asked, typename Reply>
stowage_call* Answered(const char* text, size_t size, Reply reply) {
  try {
    stowage_call* ended = nullptr;
    const std::unique_ptr<const Asked> asked = Read<Asked>(text, size, &ended);
    if (asked == nullptr) return ended;
    return new stowage_call(reply(*asked));
  } catch (const std::exception&) {
    return nullptr;
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

absl::StatusOr<OrderedJson> Reuse(const ReuseQuestion& asked) {
  ASSIGN_OR_RETURN(Answer answer, ReusePlan(asked.plan, asked.request));
  return ReplyOf(ResultFor(asked.request, std::move(answer)), asked.request.platform);
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

std::string CatalogEvent() {
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
  return Answered<stowage::ReuseQuestion>(request, size, [](const stowage::ReuseQuestion& asked) {
    return stowage::LastEvent(stowage::Reuse(asked));
  });
}

stowage_call* stowage_ways(const char* request, size_t size) {
  return Answered<stowage::WaysQuestion>(request, size, [](const stowage::WaysQuestion& asked) {
    const auto count = static_cast<size_t>(asked.count);
    return stowage::EventOf(
        "result", stowage::ReplyOf(stowage::ChooseKept(asked.operators, asked.most_bytes, count)));
  });
}

stowage_call* stowage_memory(const char* request, size_t size) {
  return Answered<stowage::MemoryQuestion>(request, size, &stowage::MemoryEvent);
}

stowage_call* stowage_units(const char* request, size_t size) {
  return Answered<stowage::UnitsQuestion>(request, size, &stowage::UnitsEvent);
}

stowage_call* stowage_catalog(const char* request, size_t size) {
  return Answered<stowage::NoQuestion>(
      request, size, [](const stowage::NoQuestion&) { return stowage::CatalogEvent(); });
}

stowage_call* stowage_check_json(const char* root, const char* text, size_t size) {
  try {
    absl::string_view json = stowage::TextOf(text, size);
    const absl::Status status = stowage::CheckJsonText(root == nullptr ? "" : root, &json);
    return new stowage_call(status.ok() ? stowage::EventOf("result", stowage::OrderedJson::object())
                                        : stowage::NotJsonEvent(status));
  } catch (const std::exception&) {
    return nullptr;
  }
}

const char* stowage_next(stowage_call* call, int milliseconds) {
  return call->Next(std::chrono::milliseconds(std::max(milliseconds, 0)));
}

void stowage_cancel(stowage_call* call) { call->Cancel(); }

void stowage_free(stowage_call* call) { delete call; }

const char* stowage_version(void) { return STOWAGE_VERSION; }

uint64_t stowage_fnv1a(const char* bytes, size_t size) {
  return stowage::Fnv1a(absl::string_view(bytes, size));
}
