// stowage-train: trains a network under a memory budget and compares that with other trainings. An
// example for training programs: profile the network, get a schedule, make a plan, train, report.
#include <ATen/Context.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/agent/plan.h"
#include "client/lib/credentials.h"
#include "client/lib/memory_budget.h"
#include "client/lib/planner.h"
#include "client/torch/memory_meter.h"
#include "client/torch/profiler.h"
#include "client/torch/torch_device.h"
#include "client/torch/torch_stages.h"
#include "client/train/networks.h"
#include "client/train/session.h"
#include "client/train/trace.h"
#include "client/train/train_options.h"
#include "client/train/training_report.h"
#include "solver/base/address.h"
#include "solver/base/file.h"
#include "solver/base/prefixed.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/json.h"
#include "solver/model/request.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitError = 1;
constexpr int kExitInfeasible = 2;
constexpr int kMomenta = 1;  // the optimizer's numbers for each trained number

// One run of the program: profile, solve, train and compare.
class Program {
 public:
  explicit Program(TrainOptions options) : options_(std::move(options)) {}

  absl::StatusOr<int> Run() {
    RETURN_IF_ERROR(Open());
    RETURN_IF_ERROR(Profile());
    RETURN_IF_ERROR(SetBudget());
    RETURN_IF_ERROR(WriteProfile());
    ASSIGN_OR_RETURN(const PlannedAnswer planned, FindSchedule(planner_, options_.solver));
    // Notes are failures on the way to the schedule, such as a server that did not answer.
    for (const std::string& note : planned.notes) absl::PrintF("  note: %s\n", note);
    const Answer& answer = *planned.result.answer;
    if (answer.outcome == Outcome::kInfeasible) return Infeasible(answer);
    ASSIGN_OR_RETURN(const FrameworkPlan plan, PlanOf(answer.schedule));
    absl::PrintF("schedule: %s, from %s\n", answer.solver, SourceText(planned));
    NoteCopiesOnTheHost(answer.schedule);
    absl::PrintF("\n");
    if (options_.compares) {
      RETURN_IF_ERROR(
          table_->Add(ComparisonTable::kPlain, session_->TrainWithoutSchedule(), std::nullopt));
      RETURN_IF_ERROR(TrainSegments());
    }
    ASSIGN_OR_RETURN(const TrainingMeasurement measured,
                     session_->TrainUnder(plan, options_.verifies ? Verification::kRecomputations
                                                                  : Verification::kOff));
    RETURN_IF_ERROR(table_->Add("stowage", measured, plan.prediction));
    table_->Print();
    PrintPredictionErrors(plan.prediction, measured, platform_.memory_bytes);
    if (options_.verifies) PrintVerification(measured);
    if (options_.graph_mode) PrintUnits(measured);
    RETURN_IF_ERROR(PrintLosses());
    RETURN_IF_ERROR(WriteTrace(plan));
    Report(planned.result.origin.fingerprint, plan.prediction, measured);
    return kExitOk;
  }

 private:
  // Parses the remaining flags and opens the device.
  absl::Status Open() {
    for (const FieldViolation& violation : SolverViolations(options_.solver)) {
      return absl::InvalidArgumentError(absl::StrCat("--solver: ", violation.problem));
    }
    LinkSpeed link;
    if (!options_.link.empty()) {
      const auto rate = ParseBytesPerSecond(options_.link);
      if (!rate.ok()) return Prefixed("--link", rate.status());
      link.offload_bytes_per_second = *rate;
      link.prefetch_bytes_per_second = *rate;
    }
    auto device = OpenDevice(options_.device, link);
    if (!device.ok()) return Prefixed("--device", device.status());
    device_ = *std::move(device);
    // Fails now if an output cannot be written, not after the training.
    for (const auto& [flag, path] : {std::pair("--trace", &options_.trace),
                                     std::pair("--chain-output", &options_.chain_output),
                                     std::pair("--platform-output", &options_.platform_output)}) {
      if (path->empty()) continue;
      const absl::Status written = WriteFile(*path, "");
      if (!written.ok()) return Prefixed(flag, written);
    }
    const auto patience = ParseSeconds(options_.patience);
    if (!patience.ok()) return Prefixed("--patience", patience.status());
    planner_.servers = options_.local ? std::vector<std::string>() : options_.servers;
    for (const std::string& server : planner_.servers) {
      RETURN_IF_ERROR(Prefixed("--server", CheckAddress(server)));
    }
    planner_.patience_seconds = *patience;
    planner_.plan_cache = options_.plan_cache;
    ASSIGN_OR_RETURN(planner_.credentials, ReadCredentials(options_.credentials));
    if (options_.device_memory.empty()) return absl::OkStatus();
    const auto bytes = ParseBytes(options_.device_memory);
    if (!bytes.ok()) return Prefixed("--device-memory", bytes.status());
    device_.memory_bytes = *bytes;
    device_.used_bytes = 0;
    return absl::OkStatus();
  }

  // Measures chain_ and platform_, and sets what depends on them.
  absl::Status Profile() {
    // Before the network exists, so that the meter counts its memory.
    meter_ = &MemoryOf(device_.torch);
    at::manual_seed(static_cast<uint64_t>(options_.seed));
    options_.network.device = device_.torch;
    ASSIGN_OR_RETURN(Network network, MakeNetwork(options_.network_name, options_.network));
    TorchStages stages(network.stages,
                       {.device = device_.torch, .granularity = meter_->Granularity()});
    stages.Feed(network.input.clone(), network.loss);
    ASSIGN_OR_RETURN(chain_, ProfileChain(&stages, device_.agent.get(), meter_,
                                          {.graph_mode = options_.graph_mode}));
    chain_.name = absl::StrCat(options_.network_name, ", batch ", options_.network.batch);
    ASSIGN_OR_RETURN(platform_, ProfileLink(device_.agent.get()));
    platform_.name = options_.device;
    // Parameters and buffers exist now; gradients and the optimizer's state are estimated from
    // them.
    budget_ = BudgetOf(stages, {.device_bytes = device_.memory_bytes,
                                .context_bytes = device_.used_bytes,
                                .optimizer_copies = kMomenta});
    session_.emplace(std::move(network), &device_, meter_,
                     SessionOptions{.steps = options_.steps, .seed = options_.seed});
    table_.emplace(options_.network.batch, ComputeSeconds(chain_));
    PrintChain(chain_);
    if (options_.graph_mode) PrintGraphCosts(chain_);
    PrintLink(platform_);
    return absl::OkStatus();
  }

  // The memory for which to solve: what the device has left, or --memory.
  absl::Status SetBudget() {
    PrintBudget(options_.device, budget_);
    if (options_.memory == "all") {
      platform_.memory_bytes = budget_.activation_bytes();
    } else {
      const auto bytes = ParseBudget(options_.memory, chain_);
      if (!bytes.ok()) return Prefixed("--memory", bytes.status());
      platform_.memory_bytes = *bytes;
    }
    if (platform_.memory_bytes <= 0) {
      return absl::InvalidArgumentError(
          options_.memory == "all" ? "--device-memory: nothing is left for activations: weights, "
                                     "gradients and the optimizer take all of it"
                                   : "--memory: must be more than 0");
    }
    absl::PrintF(
        "budget: %s%s\n", FormatBytes(platform_.memory_bytes),
        platform_.memory_bytes > budget_.activation_bytes() ? ", which is more than is left" : "");
    return absl::OkStatus();
  }

  absl::Status WriteProfile() const {
    if (!options_.chain_output.empty()) {
      RETURN_IF_ERROR(WriteFile(options_.chain_output, ToJson(chain_)));
    }
    if (options_.platform_output.empty()) return absl::OkStatus();
    return WriteFile(options_.platform_output, ToJson(platform_));
  }

  absl::StatusOr<PlannedAnswer> FindSchedule(const PlannerOptions& planner,
                                             const std::string& solver) const {
    SolveRequest request{chain_, platform_, solver, {}};
    // Measured times are noisy: rounded, those of the next run have the same cached answer.
    request.options.time_precision = kDefaultTimePrecision;
    return FindPlan(planner, request);
  }

  absl::StatusOr<FrameworkPlan> PlanOf(const Schedule& schedule) const {
    return MakeFrameworkPlan(chain_, platform_, schedule);
  }

  int Infeasible(const Answer& answer) const {
    absl::PrintF("infeasible: %s has no schedule within %s\n", answer.solver,
                 FormatBytes(platform_.memory_bytes));
    if (answer.minimum_memory_bytes.has_value()) {
      absl::PrintF("  least that works  %s  --memory %d\n",
                   FormatBytes(*answer.minimum_memory_bytes), *answer.minimum_memory_bytes);
    }
    return kExitInfeasible;
  }

  // Where there are several, which of them it was is not known here.
  std::string ServersText() const { return absl::StrJoin(planner_.servers, " or "); }

  std::string SourceText(const PlannedAnswer& planned) const {
    const std::string seconds = FormatSeconds(planned.result.origin.solve_seconds);
    switch (planned.source) {
      case PlanSource::kPlanFile:
        return "the plan file of the last run";
      case PlanSource::kServer:
        return absl::StrCat(ServersText(), ", solved in ", seconds);
      case PlanSource::kLocal:
        break;
    }
    return absl::StrCat("here, solved in ", seconds);
  }

  void NoteCopiesOnTheHost(const Schedule& schedule) const {
    const bool copies = std::any_of(
        schedule.operations.begin(), schedule.operations.end(),
        [](const Operation& operation) { return operation.kind == OperationKind::kOffload; });
    if (!copies || !device_.torch.is_cpu() || !options_.link.empty()) return;
    absl::PrintF(
        "  note: device and host share memory and cores here, so copies slow down computations, "
        "which predictions do not include; --solver rotor does not copy\n");
  }

  // The schedule of PyTorch's checkpoint_sequential with the best number of segments.
  absl::Status TrainSegments() {
    PlannerOptions here;
    here.servers.clear();
    ASSIGN_OR_RETURN(const PlannedAnswer planned, FindSchedule(here, "periodic"));
    const Answer& answer = *planned.result.answer;
    if (answer.outcome == Outcome::kInfeasible) {
      return table_->Add("segments", absl::ResourceExhaustedError("no number of segments fits"),
                         std::nullopt);
    }
    ASSIGN_OR_RETURN(const FrameworkPlan plan, PlanOf(answer.schedule));
    return table_->Add("segments", session_->TrainUnder(plan), plan.prediction);
  }

  absl::Status PrintLosses() const {
    ASSIGN_OR_RETURN(const std::string losses, table_->CompareLosses());
    if (!losses.empty()) absl::PrintF("%s\n", losses);
    return absl::OkStatus();
  }

  absl::Status WriteTrace(const FrameworkPlan& plan) {
    if (options_.trace.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<MeasuredStep> measured, session_->Trace(plan, 1));
    // The simulator needs the schedule in the chain's stage numbers, not in the execution's.
    std::vector<TimelineEntry> predicted;
    Schedule schedule;
    for (const Command& command : plan.commands) {
      schedule.operations.push_back(plan.execution.ToChain({command.kind, command.stage}));
    }
    RETURN_IF_ERROR(Simulate(chain_, platform_, schedule, &predicted).status());
    RETURN_IF_ERROR(WriteFile(options_.trace, TraceJson(plan, measured.front(), predicted)));
    absl::PrintF("trace: %s\n", options_.trace);
    return absl::OkStatus();
  }

  // For the server's operators. A failure is a note: the training is done.
  void Report(const std::string& fingerprint, const Prediction& predicted,
              const TrainingMeasurement& measured) const {
    if (planner_.servers.empty()) return;
    const absl::Status reported =
        ReportExecution(planner_, {.fingerprint = fingerprint,
                                   .predicted_step_seconds = predicted.makespan_seconds,
                                   .measured_step_seconds = measured.step_seconds,
                                   .predicted_peak_bytes = predicted.peak_memory_bytes,
                                   .measured_peak_bytes = measured.peak_bytes,
                                   .agent = "stowage-train " STOWAGE_VERSION,
                                   .job = options_.job});
    if (reported.ok()) {
      absl::PrintF("reported to %s\n", ServersText());
    } else {
      absl::PrintF("  note: not reported: %s\n", reported.message());
    }
  }

  TrainOptions options_;
  PlannerOptions planner_;
  TorchDevice device_;
  MemoryMeter* meter_ = nullptr;
  std::optional<Session> session_;
  Chain chain_;
  Platform platform_;
  MemoryBudget budget_;
  std::optional<ComparisonTable> table_;  // set by Profile()
};

int Fail(const std::string& message) {
  std::fprintf(stderr, "stowage-train: %s\n", ValidUtf8(message).c_str());
  return kExitError;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Trains a network on random data under a memory budget: profiles it, gets a schedule from a\n"
      "Stowage server or solves in this process, trains, and compares the measurements with the\n"
      "predictions, with training without a schedule and with the best segments.\n"
      "Exit codes: 0 done, 1 error, 2 infeasible.",
      "stowage-train");
  app.set_version_flag("--version", "stowage-train " STOWAGE_VERSION);
  TrainOptions options;
  AddOptions(app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return Fail(std::string(error.what()) + "; see stowage-train --help");
  }
  const absl::StatusOr<int> code = Program(std::move(options)).Run();
  if (!code.ok()) return Fail(std::string(code.status().message()));
  if (std::fflush(stdout) != 0) return Fail("cannot write to standard output");
  return *code;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF,
               BUFSIZ);  // line by line, for logs that are read during the run
  try {
    return stowage::Main(argc, argv);
  } catch (const std::exception& error) {  // from LibTorch, outside of any stage
    std::fprintf(stderr, "stowage-train: %s\n", error.what());
    return 1;
  }
}
