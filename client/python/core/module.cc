// stowage._core: solvers and simulator for the Python package, without gRPC and protobuf. Requests
// and answers are dicts (read.h, write.h); stowage/local.py makes classes of them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/export/local_export.h"
#include "client/lib/local_scheduler.h"
#include "client/lib/memory_budget.h"
#include "client/lib/plan_difference.h"
#include "client/python/core/job.h"
#include "client/python/core/read.h"
#include "client/python/core/write.h"
#include "proto/service/results.h"
#include "solver/algorithms/kept_choice.h"
#include "solver/base/fnv1a.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/export/targets.h"
#include "solver/model/chain_warnings.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

namespace py = pybind11;

// Raises the exception of stowage/errors.py for a status, with the violated fields if there are
// any.
[[noreturn]] void Raise(const absl::Status& status,
                        const std::vector<FieldViolation>& violations = {}) {
  py::list fields;
  for (const FieldViolation& violation : violations) {
    fields.append(py::make_tuple(violation.field, violation.problem));
  }
  const py::object make = py::module_::import("stowage.errors").attr("from_status");
  const std::string message(status.message());
  const py::object error = make(static_cast<int>(status.code()), message, fields);
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

void RaiseIfAny(const std::vector<FieldViolation>& violations) {
  if (!violations.empty()) Raise(ViolationsStatus(violations), violations);
}

// Of one call: what limits it.
struct Limits {
  int64_t working_bytes = 0;
  std::optional<double> timeout_seconds;
  py::object cancelled;  // a function without arguments, or None
};

// Runs find(options) on a thread of its own, and returns what that returns.
template <typename Result, typename Find>
Result Run(Job& job, const Limits& limits, Find find) {
  absl::StatusOr<Result> result = absl::UnknownError("");
  job.Run(
      [&](const std::stop_token& stop) {
        try {
          result = find(LocalOptions{limits.working_bytes, limits.timeout_seconds, stop});
        } catch (const std::bad_alloc&) {  // would end the process
          result = absl::ResourceExhaustedError("this machine has too little free memory");
        }
      },
      limits.cancelled);
  if (job.was_cancelled()) Raise(absl::CancelledError("the call was cancelled"));
  if (!result.ok()) Raise(result.status());
  return *std::move(result);
}

// An answer to `request` that no scheduler returned.
SolveResult ResultFor(const SolveRequest& request, Answer answer) {
  return {std::make_shared<const Answer>(std::move(answer)), Origin(),
          ChainWarnings(request.chain)};
}

py::dict Solve(const py::dict& request_dict, const Limits& limits, const py::object& progress,
               const py::object& improved) {
  std::vector<FieldViolation> violations;
  const SolveRequest request = ReadSolveRequest(request_dict, &violations);
  if (violations.empty()) violations = RequestViolations(request);
  RaiseIfAny(violations);
  Job job;
  SolveCall call;
  if (!progress.is_none()) {
    call.running = [&](absl::string_view solver, double fraction) {
      job.DeliverLatest(
          [&progress, name = std::string(solver), fraction] { progress(name, fraction); });
    };
  }
  if (!improved.is_none()) {
    call.improved = [&](const Answer& best) {
      job.Deliver(
          [&, better = ResultFor(request, best)] { improved(ToDict(better, request.platform)); });
    };
  }
  const auto result = Run<SolveResult>(job, limits, [&](const LocalOptions& options) {
    return LocalScheduler(options).Solve(request, call);
  });
  return ToDict(result, request.platform);
}

py::dict FindFrontier(const py::dict& request_dict, const Limits& limits) {
  std::vector<FieldViolation> violations;
  const FrontierRequest request = ReadFrontierRequest(request_dict, &violations);
  if (violations.empty()) violations = RequestViolations(request);
  RaiseIfAny(violations);
  Job job;
  return ToDict(Run<FrontierResult>(job, limits, [&](const LocalOptions& options) {
    return LocalScheduler(options).FindFrontier(request);
  }));
}

py::dict Simulate(const py::dict& request_dict, const py::object& cancelled) {
  std::vector<FieldViolation> violations;
  const SimulateRequest request = ReadSimulateRequest(request_dict, &violations);
  if (violations.empty()) {
    Append(Violations(request.chain), &violations);
    Append(Violations(request.platform), &violations);
    Append(Violations(request.schedule), &violations);
  }
  RaiseIfAny(violations);
  Job job;
  return ToDict(Run<ExplainedSimulation>(
      job, {0, std::nullopt, cancelled},
      [&](const LocalOptions& options) { return LocalScheduler(options).Simulate(request); }));
}

py::list Solvers() {
  py::list list;
  for (const SolverInfo& info : AllSolvers()) list.append(ToDict(info.description));
  return list;
}

Chain ValidChain(const py::dict& chain_dict) {
  std::vector<FieldViolation> violations;
  Chain chain = ReadChain(chain_dict, &violations);
  if (violations.empty()) violations = Violations(chain);
  RaiseIfAny(violations);
  return chain;
}

int64_t Budget(const std::string& text, const py::dict& chain_dict, const std::string& field) {
  const absl::StatusOr<int64_t> bytes = ParseBudget(text, ValidChain(chain_dict));
  if (!bytes.ok()) RaiseIfAny({{field, std::string(bytes.status().message())}});
  return *bytes;
}

int64_t Bytes(const std::string& text, const std::string& field) {
  const absl::StatusOr<int64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) RaiseIfAny({{field, std::string(bytes.status().message())}});
  return *bytes;
}

py::tuple MemoryRange(const py::dict& chain_dict) {
  const Chain chain = ValidChain(chain_dict);
  return py::make_tuple(FloorOfMemory(chain).bytes, StoreAllPeakBytes(chain));
}

py::object Reuse(const py::dict& request_dict, const py::dict& answer_dict, bool exactly) {
  std::vector<FieldViolation> violations;
  const SolveRequest request = ReadSolveRequest(request_dict, &violations);
  const Answer earlier = ReadAnswer(answer_dict, &violations);
  if (violations.empty()) violations = RequestViolations(request);
  RaiseIfAny(violations);
  std::optional<Answer> answer =
      ReuseAnswer(request, earlier, exactly ? SameInstance::kExactly : SameInstance::kRounded);
  if (!answer.has_value()) return py::none();
  return ToDict(ResultFor(request, *std::move(answer)), request.platform);
}

std::string DifferenceOf(const py::dict& made_for_dict, const py::dict& now_dict,
                         const py::dict& answer_dict) {
  std::vector<FieldViolation> violations;
  const SolveRequest made_for = ReadSolveRequest(made_for_dict, &violations);
  const SolveRequest now = ReadSolveRequest(now_dict, &violations);
  const Answer answer = ReadAnswer(answer_dict, &violations);
  RaiseIfAny(violations);
  return PlanDifference(made_for, now, answer.schedule);
}

const Target& TargetOf(const std::string& name) {
  const Target* const target = FindTarget(name);
  if (target == nullptr) RaiseIfAny({{"target", "is none of stowage.export_targets()"}});
  return *target;
}

py::dict ExportPlan(const py::dict& request_dict, const std::string& target,
                    const std::string& layers, const Limits& limits) {
  std::vector<FieldViolation> violations;
  const SolveRequest solve = ReadSolveRequest(request_dict, &violations);
  if (violations.empty()) violations = RequestViolations(solve);
  RaiseIfAny(violations);
  ExportRequest request{&TargetOf(target), solve.chain, solve.platform, {}};
  const absl::StatusOr<LayerStages> stages = ParseStages(*request.target, layers, request.chain);
  if (!stages.ok()) RaiseIfAny({{"layers", std::string(stages.status().message())}});
  request.stages = *stages;
  Job job;
  return ToDict(Run<Export>(
      job, limits, [&](const LocalOptions& options) { return MakeExport(request, options); }));
}

py::list ExportTargets() {
  py::list list;
  for (const Target& target : AllTargets()) list.append(ToDict(target));
  return list;
}

// Ways to save a stage, of dicts with the members of OperatorCost: those with more bytes first, as
// (name, numbers of the operators whose results it keeps, seconds of its rerun).
py::list ChooseKeptOf(const py::list& operators, int64_t most_bytes, size_t count) {
  std::vector<OperatorCost> costs;
  for (const py::handle operation : operators) {
    costs.push_back({.name = operation["name"].cast<std::string>(),
                     .seconds = operation["seconds"].cast<double>(),
                     .kept = operation["kept"].cast<bool>(),
                     .inner_bytes = operation["inner_bytes"].cast<int64_t>(),
                     .output_bytes = operation["output_bytes"].cast<int64_t>(),
                     .saves = operation["saves"].cast<bool>(),
                     .saves_argument = operation["saves_argument"].cast<bool>()});
  }
  py::list choices;
  for (const KeptChoice& choice : ChooseKept(costs, most_bytes, count)) {
    choices.append(py::make_tuple(choice.name, choice.operators, choice.rerun_seconds));
  }
  return choices;
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  using py::literals::operator""_a;
  module.doc() = "Solvers and simulator; requests and answers are dicts. See stowage.solve.";
  module.def(
      "solve",
      [](const py::dict& request, int64_t working_bytes, std::optional<double> timeout_seconds,
         py::object cancelled, const py::object& progress, const py::object& improved) {
        return Solve(request, {working_bytes, timeout_seconds, std::move(cancelled)}, progress,
                     improved);
      },
      "request"_a, py::kw_only(), "working_bytes"_a, "timeout_seconds"_a = py::none(),
      "cancelled"_a = py::none(), "progress"_a = py::none(), "improved"_a = py::none());
  module.def(
      "frontier",
      [](const py::dict& request, int64_t working_bytes, std::optional<double> timeout_seconds,
         py::object cancelled) {
        return FindFrontier(request, {working_bytes, timeout_seconds, std::move(cancelled)});
      },
      "request"_a, py::kw_only(), "working_bytes"_a, "timeout_seconds"_a = py::none(),
      "cancelled"_a = py::none());
  module.def("simulate", &Simulate, "request"_a, py::kw_only(), "cancelled"_a = py::none());
  module.def("solvers", &Solvers);
  module.def(
      "export",
      [](const py::dict& request, const std::string& target, const std::string& layers,
         int64_t working_bytes, py::object cancelled) {
        return ExportPlan(request, target, layers,
                          {working_bytes, std::nullopt, std::move(cancelled)});
      },
      "request"_a, "target"_a, "layers"_a, py::kw_only(), "working_bytes"_a,
      "cancelled"_a = py::none());
  module.def("export_targets", &ExportTargets);
  module.def("budget", &Budget, "text"_a, "chain"_a, "field"_a);
  module.def("parse_bytes", &Bytes, "text"_a, "field"_a);
  module.def("format_bytes", &FormatBytes, "bytes"_a);
  module.def("format_seconds", &FormatSeconds, "seconds"_a);
  module.def("memory_range", &MemoryRange, "chain"_a);
  module.def("choose_kept", &ChooseKeptOf, "operators"_a, "most_bytes"_a, "count"_a);
  module.def(
      "fnv1a", [](const py::bytes& bytes) { return Fnv1a(std::string(bytes)); }, "bytes"_a);
  module.def("plan_difference", &DifferenceOf, "made_for"_a, "now"_a, "answer"_a);
  module.def("reuse", &Reuse, "request"_a, "answer"_a, "exactly"_a);
}

}  // namespace stowage
