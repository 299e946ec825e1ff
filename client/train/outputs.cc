#include "client/train/outputs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lib/planner.h"
#include "client/train/trace.h"
#include "solver/base/file.h"
#include "solver/base/prefixed.h"
#include "solver/base/quantile.h"
#include "solver/base/status_macros.h"
#include "solver/json/print_json.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

absl::Status WriteTrace(const std::string& path, const Network& network, Fit* fit) {
  const FitPlan& plan = fit->plan();
  const MeasuredStep measured = fit->timed_step(network.input, network.loss);
  std::vector<TimelineEntry> predicted;
  RETURN_IF_ERROR(
      Simulate(plan.chain, plan.platform, plan.planned->result.answer->schedule, &predicted)
          .status());
  return WriteFile(path, TraceJson(*plan.commands, measured, predicted));
}

absl::Status Report(const TrainOptions& options, const FitOptions& fit_options, const FitPlan& plan,
                    const TrainingSamples& measured) {
  PlannerOptions planner;
  planner.servers = fit_options.servers;
  planner.credentials = fit_options.credentials;
  const Prediction& predicted = plan.commands->prediction;
  return ReportExecution(planner, {.fingerprint = plan.planned->result.origin.fingerprint,
                                   .predicted_step_seconds = predicted.makespan_seconds,
                                   .measured_step_seconds = MedianOf(measured.seconds),
                                   .predicted_peak_bytes = predicted.peak_memory_bytes,
                                   .measured_peak_bytes = measured.peak_bytes,
                                   .agent = "stowage-train " STOWAGE_VERSION,
                                   .job = options.job});
}

}  // namespace

absl::Status CheckOutputs(const TrainOptions& options) {
  for (const auto& [flag, path] :
       {std::pair("--trace", &options.trace), std::pair("--chain-output", &options.chain_output)}) {
    if (!path->empty()) RETURN_IF_ERROR(Prefixed(flag, WriteFile(*path, "")));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> WriteOutputs(const TrainOptions& options,
                                                      const FitOptions& fit_options,
                                                      const Network& network,
                                                      const TrainingSamples& measured, Fit* fit) {
  std::vector<std::string> notes;
  const FitPlan& plan = fit->plan();
  if (!options.chain_output.empty()) {
    RETURN_IF_ERROR(WriteFile(options.chain_output, ToJson(plan.chain)));
  }
  if (plan.commands == nullptr) {
    if (!options.trace.empty()) {
      notes.emplace_back("note: --trace: a step is plain training, of which nothing is traced");
    }
    return notes;
  }
  if (!options.trace.empty()) RETURN_IF_ERROR(WriteTrace(options.trace, network, fit));
  if (fit_options.servers.empty()) return notes;
  // The training is done: a failure is a note.
  const absl::Status reported = Report(options, fit_options, plan, measured);
  notes.push_back(reported.ok() ? "reported to the server"
                                : absl::StrCat("note: not reported: ", reported.message()));
  return notes;
}

}  // namespace stowage
