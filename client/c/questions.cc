#include "client/c/questions.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/c/named_origin.h"
#include "solver/export/targets.h"
#include "solver/json/json_reader.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

using Violated = std::vector<FieldViolation>;

// --- Fields -------------------------------------------------------------------------------------

// What both ask: the fields of a SolveRequest that a FrontierRequest has, too.
template <typename Visitor, typename Request>
void VisitAsked(Visitor& visitor, Request& request) {
  visitor.Field("chain", request.chain);
  visitor.Field("platform", request.platform);
  visitor.Field("solver", request.solver);
  visitor.Field("options", request.options);
}

template <typename Visitor>
void VisitLimits(Visitor& visitor, Limits& limits) {
  visitor.Field("working_bytes", limits.working_bytes);
  visitor.Field("timeout_seconds", limits.timeout_seconds);
}

}  // namespace

template <typename Visitor>
void VisitFields(Visitor& visitor, OperatorCost& cost) {
  visitor.Field("name", cost.name);
  visitor.Field("seconds", cost.seconds);
  visitor.Field("kept", cost.kept);
  visitor.Field("inner_bytes", cost.inner_bytes);
  visitor.Field("output_bytes", cost.output_bytes);
  visitor.Field("saves", cost.saves);
  visitor.Field("saves_argument", cost.saves_argument);
}

template <typename Visitor>
void VisitFields(Visitor& visitor, SolveRequest& request) {
  VisitAsked(visitor, request);
  visitor.Ignored("export_for");  // changes nothing of the schedule
  visitor.Ignored("export_layers");
}

// What ReusePlan() reads of a SolveResponse.
template <typename Visitor>
void VisitFields(Visitor& visitor, Answer& answer) {
  visitor.Required("outcome", answer.outcome);
  visitor.Field("limit", answer.guarantee);
  visitor.Field("schedule", answer.schedule);
  visitor.Field("minimum_memory_bytes", answer.minimum_memory_bytes);
  visitor.Field("rounding_loss", answer.rounding_loss);
  visitor.Field("explanation", answer.explanation);
  NamedOrigin origin;
  visitor.Field("origin", origin);
  answer.solver = std::move(origin.solver);
  visitor.Field("prediction", answer.prediction);
  for (const absl::string_view name :
       {"platform", "memory_floor_bytes", "memory_floor_operation", "warnings", "exported"}) {
    visitor.Ignored(name);
  }
}

template <typename Visitor>
void VisitFields(Visitor& visitor, SolveQuestion& asked) {
  VisitAsked(visitor, asked.request);
  VisitLimits(visitor, asked.limits);
  visitor.Field("stream", asked.stream);
}

template <typename Visitor>
void VisitFields(Visitor& visitor, FrontierQuestion& asked) {
  VisitAsked(visitor, asked.request);
  visitor.Field("points", asked.request.points);
  visitor.Field("memory_bytes", asked.request.budgets);
  VisitLimits(visitor, asked.limits);
}

template <typename Visitor>
void VisitFields(Visitor& visitor, SimulateQuestion& asked) {
  visitor.Field("chain", asked.request.chain);
  visitor.Field("platform", asked.request.platform);
  visitor.Field("schedule", asked.request.schedule);
}

template <typename Visitor>
void VisitFields(Visitor& visitor, ExportQuestion& asked) {
  VisitAsked(visitor, asked.request);
  visitor.Field("export_for", asked.target);
  visitor.Field("export_layers", asked.layers);
  VisitLimits(visitor, asked.limits);
}

template <typename Visitor>
void VisitFields(Visitor& visitor, ReuseQuestion& asked) {
  VisitFields(visitor, asked.request);
  visitor.Field("made_for", asked.plan.request);
  visitor.Field("answer", asked.plan.answer);
  visitor.Field("solver_version", asked.plan.solver_version);
}

template <typename Visitor>
void VisitFields(Visitor& visitor, WaysQuestion& asked) {
  visitor.Field("operators", asked.operators);
  visitor.Field("most_bytes", asked.most_bytes);
  visitor.Field("count", asked.count);
}

template <typename Visitor>
void VisitFields(Visitor& visitor, MemoryQuestion& asked) {
  visitor.Field("chain", asked.chain);
  visitor.Field("budget", asked.budget);
}

template <typename Visitor>
void VisitFields(Visitor& visitor, UnitsQuestion& asked) {
  visitor.Field("size", asked.size);
  visitor.Field("bytes", asked.bytes);
  visitor.Field("seconds", asked.seconds);
}

template <typename Visitor>
void VisitFields(Visitor& /*visitor*/, NoQuestion& /*asked*/) {}

namespace {

// --- Values -------------------------------------------------------------------------------------

// Of ChooseKept()'s table, which has a list of bytes for each.
constexpr size_t kMaxOperators = 100'000;
constexpr int kMaxWays = 100;
constexpr double kMaxSeconds = 1e15;

// A budget that is missing, which a budget of 0 bytes is not.
constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::min();

void CheckBudget(Platform& platform, Violated* violations) {
  if (platform.memory_bytes != kNoBudget) return;
  platform.memory_bytes = 0;
  violations->push_back(
      {"platform.memory_bytes", "is missing; give the device memory for activations, in bytes"});
}

// Written so that NaN is a violation.
void CheckLimits(const Limits& limits, Violated* violations) {
  if (limits.working_bytes < 0) {
    violations->push_back(
        {"working_bytes", absl::StrCat("is ", limits.working_bytes, "; it must be at least 0")});
  }
  if (limits.timeout_seconds.has_value() && !(*limits.timeout_seconds > 0)) {
    violations->push_back({"timeout_seconds", absl::StrCat("is ", *limits.timeout_seconds,
                                                           "; it must be above 0, or unset")});
  }
}

Violated ViolationsOf(SolveQuestion& asked) {
  Violated violations;
  CheckBudget(asked.request.platform, &violations);
  Append(RequestViolations(asked.request), &violations);
  CheckLimits(asked.limits, &violations);
  return violations;
}

Violated ViolationsOf(FrontierQuestion& asked) {
  Platform& platform = asked.request.platform;
  if (platform.memory_bytes == kNoBudget) platform.memory_bytes = 0;  // plays no part
  Violated violations = RequestViolations(asked.request);
  CheckLimits(asked.limits, &violations);
  return violations;
}

Violated ViolationsOf(SimulateQuestion& asked) {
  Violated violations;
  CheckBudget(asked.request.platform, &violations);
  Append(Violations(asked.request.chain), &violations);
  Append(Violations(asked.request.platform), &violations);
  Append(Violations(asked.request.schedule), &violations);
  return violations;
}

Violated ViolationsOf(ExportQuestion& asked) {
  Violated violations;
  CheckBudget(asked.request.platform, &violations);
  Append(RequestViolations(asked.request), &violations);
  CheckLimits(asked.limits, &violations);
  const Target* const target = FindTarget(asked.target);
  if (target == nullptr) {
    violations.push_back(
        {"export_for", absl::StrCat("is no framework; choose one of ", TargetNames())});
  }
  if (!violations.empty()) return violations;
  const auto stages = ParseStages(*target, asked.layers, asked.request.chain);
  if (!stages.ok()) {
    violations.push_back({"export_layers", std::string(stages.status().message())});
  }
  return violations;
}

Violated ViolationsOf(ReuseQuestion& asked) {
  Violated violations;
  CheckBudget(asked.request.platform, &violations);
  Append(RequestViolations(asked.request), &violations);
  return violations;
}

Violated ViolationsOf(WaysQuestion& asked) {
  Violated violations;
  if (asked.operators.size() > kMaxOperators) {
    violations.push_back({"operators", absl::StrCat("lists ", asked.operators.size(), "; at most ",
                                                    kMaxOperators, " at once")});
    return violations;
  }
  for (size_t i = 0; i < asked.operators.size(); ++i) {
    const OperatorCost& cost = asked.operators[i];
    const auto add = [&](absl::string_view field, auto value, absl::string_view wanted) {
      violations.push_back({absl::StrCat("operators[", i, "].", field),
                            absl::StrCat("is ", value, "; it must be ", wanted)});
    };
    if (!(cost.seconds >= 0 && cost.seconds < 1e6)) add("seconds", cost.seconds, "from 0 to 1e6");
    // The sum of all of them stays in 64 bits.
    constexpr int64_t kMost = kMaxTotalBytes / static_cast<int64_t>(kMaxOperators) / 2;
    if (cost.inner_bytes < 0 || cost.inner_bytes > kMost) {
      add("inner_bytes", cost.inner_bytes, absl::StrCat("from 0 to ", kMost));
    }
    if (cost.output_bytes < 0 || cost.output_bytes > kMost) {
      add("output_bytes", cost.output_bytes, absl::StrCat("from 0 to ", kMost));
    }
  }
  if (asked.most_bytes < 0 || asked.most_bytes >= kMaxTotalBytes) {
    violations.push_back(
        {"most_bytes", absl::StrCat("is ", asked.most_bytes, "; it must be from 0 to below 2^62")});
  }
  if (asked.count < 0 || asked.count > kMaxWays) {
    violations.push_back(
        {"count", absl::StrCat("is ", asked.count, "; it must be from 0 to ", kMaxWays)});
  }
  return violations;
}

Violated ViolationsOf(MemoryQuestion& asked) { return Violations(asked.chain); }

Violated ViolationsOf(UnitsQuestion& asked) {
  const int given = static_cast<int>(asked.size.has_value()) +
                    static_cast<int>(asked.bytes.has_value()) +
                    static_cast<int>(asked.seconds.has_value());
  if (given != 1) return {{"size", "give one of size, bytes and seconds"}};
  if (asked.bytes.has_value() && *asked.bytes < 0) {
    return {{"bytes", absl::StrCat("is ", *asked.bytes, "; it must be at least 0")}};
  }
  if (asked.seconds.has_value() && !(*asked.seconds >= 0 && *asked.seconds < kMaxSeconds)) {
    return {{"seconds", absl::StrCat("is ", *asked.seconds, "; it must be from 0 to below 1e15")}};
  }
  return {};
}

Violated ViolationsOf(NoQuestion& /*asked*/) { return {}; }

}  // namespace

template <typename Question>
Violated ReadQuestion(const nlohmann::json& json, Question* asked) {
  if constexpr (requires { asked->request; }) asked->request.platform.memory_bytes = kNoBudget;
  if constexpr (requires { asked->request.options; }) {
    asked->request.options.time_precision = kDefaultTimePrecision;
  }
  if constexpr (requires { asked->plan; }) {
    asked->plan.request.options.time_precision = kDefaultTimePrecision;
  }
  Violated violations;
  {
    JsonReader reader(&violations);
    reader.Read(JsonPath{}, json, asked);
  }
  return violations.empty() ? ViolationsOf(*asked) : violations;
}

template Violated ReadQuestion(const nlohmann::json& json, SolveQuestion* asked);
template Violated ReadQuestion(const nlohmann::json& json, FrontierQuestion* asked);
template Violated ReadQuestion(const nlohmann::json& json, SimulateQuestion* asked);
template Violated ReadQuestion(const nlohmann::json& json, ExportQuestion* asked);
template Violated ReadQuestion(const nlohmann::json& json, ReuseQuestion* asked);
template Violated ReadQuestion(const nlohmann::json& json, WaysQuestion* asked);
template Violated ReadQuestion(const nlohmann::json& json, MemoryQuestion* asked);
template Violated ReadQuestion(const nlohmann::json& json, UnitsQuestion* asked);
template Violated ReadQuestion(const nlohmann::json& json, NoQuestion* asked);

}  // namespace stowage
