// stowage-train: trains a real network under a memory budget, and says what that costs. An example
// to copy from: profile, request a schedule, plan, train, report.
#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/agent/plan.h"
#include "client/lib/memory_budget.h"
#include "client/text/table.h"
#include "client/text/write_file.h"
#include "client/torch/memory_meter.h"
#include "client/torch/profiler.h"
#include "client/torch/torch_stages.h"
#include "client/train/networks.h"
#include "client/train/schedule_service.h"
#include "client/train/session.h"
#include "client/train/trace.h"
#include "client/train/train_device.h"
#include "client/train/train_options.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitError = 1;
constexpr int kExitInfeasible = 2;
constexpr int kMomenta = 1;  // numbers that the optimizer keeps for each that is trained

absl::Status InFlag(const char* flag, const absl::Status& status) {
  return {status.code(), absl::StrCat(flag, ": ", status.message())};
}

// What a line of the final table says.
struct Row {
  std::string name;
  absl::StatusOr<Measured> measured;
  std::optional<Prediction> predicted;
};

class Program {
 public:
  explicit Program(TrainOptions options) : options_(std::move(options)) {}

  absl::StatusOr<int> Run() {
    RETURN_IF_ERROR(Open());
    RETURN_IF_ERROR(Profile());
    RETURN_IF_ERROR(SetBudget());
    RETURN_IF_ERROR(WriteProfile());
    ASSIGN_OR_RETURN(const PlannedAnswer planned,
                     FindSchedule(service_, chain_, platform_, options_.solver));
    for (const std::string& note : planned.notes) absl::PrintF("  note: %s\n", note);
    const Answer& answer = *planned.result.answer;
    if (answer.outcome == Outcome::kInfeasible) return Infeasible(answer);
    ASSIGN_OR_RETURN(const Plan plan, PlanOf(answer.schedule));
    absl::PrintF("schedule: %s, from %s\n\n", answer.solver, SourceText(planned));
    if (options_.compares) {
      RETURN_IF_ERROR(Add("plain", session_->TrainPlainly(), std::nullopt));
      RETURN_IF_ERROR(TrainSegments());
    }
    ASSIGN_OR_RETURN(const Measured measured, session_->TrainUnder(plan, options_.verifies));
    RETURN_IF_ERROR(Add("stowage", measured, plan.prediction));
    PrintRows();
    PrintErrors(plan.prediction, measured);
    PrintVerified(measured);
    PrintUnits(measured);
    RETURN_IF_ERROR(CompareLosses());
    RETURN_IF_ERROR(WriteTrace(plan));
    Report(planned.result.origin.fingerprint, plan.prediction, measured);
    return kExitOk;
  }

 private:
  absl::Status Open() {
    LinkSpeed link;
    if (!options_.link.empty()) {
      const auto rate = ParseBytesPerSecond(options_.link);
      if (!rate.ok()) return InFlag("--link", rate.status());
      link.offload_bytes_per_second = *rate;
      link.prefetch_bytes_per_second = *rate;
    }
    auto device = OpenDevice(options_.device, link);
    if (!device.ok()) return InFlag("--device", device.status());
    device_ = *std::move(device);
    // Better now than when the training is done.
    for (const auto& [flag, path] : {std::pair("--trace", &options_.trace),
                                     std::pair("--chain-output", &options_.chain_output),
                                     std::pair("--platform-output", &options_.platform_output)}) {
      if (path->empty()) continue;
      const absl::Status written = WriteFile(*path, "");
      if (!written.ok()) return InFlag(flag, written);
    }
    const auto patience = ParseSeconds(options_.patience);
    if (!patience.ok()) return InFlag("--patience", patience.status());
    service_ = {options_.local ? "" : options_.server, *patience, options_.plan_cache,
                options_.credentials};
    if (options_.device_memory.empty()) return absl::OkStatus();
    const auto bytes = ParseBytes(options_.device_memory);
    if (!bytes.ok()) return InFlag("--device-memory", bytes.status());
    device_.memory_bytes = *bytes;
    device_.used_bytes = 0;
    return absl::OkStatus();
  }

  // The chain and the link, measured.
  absl::Status Profile() {
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
    budget_ = BudgetOf(stages, device_.memory_bytes, device_.used_bytes, kMomenta);
    session_.emplace(std::move(network), &device_, meter_, options_.steps, options_.seed);
    absl::PrintF("%s: %d stages; storing everything takes %s a step and %s\n", chain_.name,
                 chain_.length(), FormatSeconds(ComputeSeconds(chain_)),
                 FormatBytes(StoreAllPeakBytes(chain_)));
    if (options_.graph_mode) PrintModes();
    absl::PrintF("link: %s to the host, %s to the device, %s a transfer, %s duplex\n",
                 FormatBytesPerSecond(platform_.offload_bytes_per_second),
                 FormatBytesPerSecond(platform_.prefetch_rate()),
                 FormatSeconds(platform_.transfer_latency_seconds),
                 platform_.half_duplex ? "half" : "full");
    if (device_.torch.is_cpu() && options_.link.empty()) {
      absl::PrintF(
          "note: device and host share memory and cores here, so copies slow computing down, which "
          "predictions leave out; --solver rotor copies nothing\n");
    }
    return absl::OkStatus();
  }

  // What the units of graph mode take in both modes.
  void PrintModes() const {
    double seconds[2] = {};
    int64_t bytes[2] = {};
    int units = 0;
    for (const Unit& unit : UnitsOf(chain_)) {
      if (!unit.has_graph) continue;
      ++units;
      const auto add = [&](Mode mode, const Stage& stage) {
        seconds[static_cast<int>(mode)] += stage.forward_seconds + stage.backward_seconds;
        bytes[static_cast<int>(mode)] += stage.saved_bytes;
      };
      for (int l = unit.first; l <= unit.last; ++l) add(Mode::kEager, chain_.stage(l));
      add(Mode::kGraph, GraphStage(chain_, unit));
    }
    absl::PrintF("graph mode: %d units take %s and save %s; as eager stages %s and %s\n", units,
                 FormatSeconds(seconds[1]), FormatBytes(bytes[1]), FormatSeconds(seconds[0]),
                 FormatBytes(bytes[0]));
  }

  absl::Status SetBudget() {
    Table table({Table::Align::kLeft, Table::Align::kRight});
    table.Add({"memory of " + options_.device, FormatBytes(budget_.device)});
    table.Add({"- in use, context", FormatBytes(budget_.context)});
    table.Add({"- weights, buffers", FormatBytes(budget_.weights)});
    table.Add({"- gradients", FormatBytes(budget_.gradients)});
    table.Add({"- optimizer", FormatBytes(budget_.optimizer)});
    table.Add({"- margin", FormatBytes(budget_.margin)});
    table.Add({"= for activations", FormatBytes(std::max<int64_t>(budget_.activations(), 0))});
    absl::PrintF("%s", table.ToString(2));
    if (options_.memory == "all") {
      platform_.memory_bytes = budget_.activations();
    } else {
      const auto bytes = ParseBudget(options_.memory, chain_);
      if (!bytes.ok()) return InFlag("--memory", bytes.status());
      platform_.memory_bytes = *bytes;
    }
    if (platform_.memory_bytes <= 0) {
      return absl::InvalidArgumentError(
          options_.memory == "all" ? "--device-memory: nothing is left for activations: weights, "
                                     "gradients and the optimizer take it all"
                                   : "--memory: must be more than nothing");
    }
    absl::PrintF(
        "budget: %s%s\n", FormatBytes(platform_.memory_bytes),
        platform_.memory_bytes > budget_.activations() ? ", which is more than is left" : "");
    return absl::OkStatus();
  }

  absl::Status WriteProfile() const {
    if (!options_.chain_output.empty()) {
      RETURN_IF_ERROR(WriteChain(options_.chain_output, chain_));
    }
    if (options_.platform_output.empty()) return absl::OkStatus();
    return WritePlatform(options_.platform_output, platform_);
  }

  absl::StatusOr<Plan> PlanOf(const Schedule& schedule) const {
    return MakePlan(chain_, platform_, schedule, {.places_values = false});
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

  std::string SourceText(const PlannedAnswer& planned) const {
    const std::string seconds = FormatSeconds(planned.result.origin.solve_seconds);
    switch (planned.source) {
      case PlanSource::kPlanFile:
        return "the plan file of the last run";
      case PlanSource::kServer:
        return absl::StrCat(service_.server, ", solved in ", seconds);
      case PlanSource::kLocal:
        break;
    }
    return absl::StrCat("here, solved in ", seconds);
  }

  // What PyTorch's checkpoint_sequential does, with the number of segments that suits best.
  absl::Status TrainSegments() {
    ASSIGN_OR_RETURN(const PlannedAnswer planned,
                     FindSchedule(ServiceOptions(), chain_, platform_, "periodic"));
    const Answer& answer = *planned.result.answer;
    if (answer.outcome == Outcome::kInfeasible) {
      return Add("segments", absl::ResourceExhaustedError("no number of segments fits"),
                 std::nullopt);
    }
    ASSIGN_OR_RETURN(const Plan plan, PlanOf(answer.schedule));
    return Add("segments", session_->TrainUnder(plan, /*verifies=*/false), plan.prediction);
  }

  // What does not fit is a row, too; any other error ends the program.
  absl::Status Add(const char* name, absl::StatusOr<Measured> measured,
                   const std::optional<Prediction>& predicted) {
    if (!measured.ok() && !absl::IsResourceExhausted(measured.status())) return measured.status();
    rows_.push_back({name, std::move(measured), predicted});
    return absl::OkStatus();
  }

  void PrintRows() const {
    constexpr auto kLeft = Table::Align::kLeft;
    constexpr auto kRight = Table::Align::kRight;
    Table table({kLeft, kRight, kRight, kRight, kRight, kRight, kRight, kRight});
    table.Add({"", "step", "predicted", "samples/s", "overhead", "peak", "predicted", "loss"});
    for (const Row& row : rows_) {
      if (!row.measured.ok()) {
        table.Add({row.name, "does not fit"});
        continue;
      }
      const Measured& measured = *row.measured;
      const bool known = row.predicted.has_value();
      table.Add({row.name, FormatSeconds(measured.step_seconds),
                 known ? FormatSeconds(row.predicted->makespan_seconds) : "",
                 absl::StrFormat("%.2f", options_.network.batch / measured.step_seconds),
                 absl::StrFormat("%+.1f %%", 100 * (measured.step_seconds / Plain() - 1)),
                 FormatBytes(measured.peak_bytes),
                 known ? FormatBytes(row.predicted->peak_memory_bytes) : "",
                 absl::StrFormat("%.6g", measured.loss)});
    }
    absl::PrintF("%s", table.ToString(2));
  }

  // Training under a schedule is plain training: kernels that are not deterministic may differ, a
  // little.
  absl::Status CompareLosses() const {
    constexpr double kRelative = 0.02;
    constexpr double kAbsolute = 1e-3;
    if (rows_.front().name != "plain" || !rows_.front().measured.ok()) return absl::OkStatus();
    const double plain = rows_.front().measured->loss;
    for (const Row& row : rows_) {
      if (!row.measured.ok()) continue;
      if (std::abs(row.measured->loss - plain) <= kAbsolute + kRelative * std::abs(plain)) continue;
      return absl::InternalError(absl::StrCat(
          row.name,
          ": its loss is not that of plain training; --verify may say which stage differs"));
    }
    return absl::OkStatus();
  }

  // A step without recomputation, in seconds: as measured where it was.
  double Plain() const {
    if (rows_.front().name == "plain" && rows_.front().measured.ok()) {
      return rows_.front().measured->step_seconds;
    }
    return ComputeSeconds(chain_);
  }

  void PrintVerified(const Measured& measured) const {
    if (!options_.verifies) return;
    if (measured.verified == 0) {
      absl::PrintF("verified: the schedule recomputes nothing, so there was nothing to compare\n");
      return;
    }
    absl::PrintF("verified: %d recomputations computed what their first runs did\n",
                 measured.verified);
  }

  // How what the schedule runs in graph mode was run.
  void PrintUnits(const Measured& measured) const {
    if (!options_.graph_mode) return;
    if (measured.traced.empty() && measured.blocks.empty()) {
      absl::PrintF("graph mode: the schedule runs nothing in it\n");
      return;
    }
    absl::PrintF("graph mode: %d by a trace, %d as blocks\n", measured.traced.size(),
                 measured.blocks.size());
    for (const std::string& name : measured.traced) absl::PrintF("  %s: by a trace\n", name);
    for (const std::string& block : measured.blocks) absl::PrintF("  %s\n", block);
  }

  void PrintErrors(const Prediction& predicted, const Measured& measured) const {
    absl::PrintF("\nmeasured against predicted: time %+.1f %%, peak %+.1f %%\n",
                 100 * (measured.step_seconds / predicted.makespan_seconds - 1),
                 100 * (static_cast<double>(measured.peak_bytes) /
                            static_cast<double>(predicted.peak_memory_bytes) -
                        1));
    const int64_t over = measured.peak_bytes - platform_.memory_bytes;
    if (over <= 0) return;
    absl::PrintF("note: the peak was %s over the budget; where that matters, ask for --memory %d\n",
                 FormatBytes(over), platform_.memory_bytes - over);
  }

  absl::Status WriteTrace(const Plan& plan) {
    if (options_.trace.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const MeasuredStep measured, session_->Trace(plan));
    std::vector<TimelineEntry> predicted;
    Schedule schedule;
    for (const Command& command : plan.commands) {
      schedule.operations.push_back(plan.execution.ToChain({command.kind, command.stage}));
    }
    RETURN_IF_ERROR(Simulate(chain_, platform_, schedule, &predicted).status());
    RETURN_IF_ERROR(WriteFile(options_.trace, TraceJson(plan, measured, predicted)));
    absl::PrintF("trace: %s\n", options_.trace);
    return absl::OkStatus();
  }

  // For the server's operators. A failure is a note: the training is done.
  void Report(const std::string& fingerprint, const Prediction& predicted,
              const Measured& measured) const {
    if (service_.server.empty()) return;
    const absl::Status reported =
        ReportExecution(service_, {.fingerprint = fingerprint,
                                   .predicted_step_seconds = predicted.makespan_seconds,
                                   .measured_step_seconds = measured.step_seconds,
                                   .predicted_peak_bytes = predicted.peak_memory_bytes,
                                   .measured_peak_bytes = measured.peak_bytes,
                                   .agent = "stowage-train " STOWAGE_VERSION,
                                   .job = options_.job});
    if (reported.ok()) {
      absl::PrintF("reported to %s\n", service_.server);
    } else {
      absl::PrintF("  note: not reported: %s\n", reported.message());
    }
  }

  TrainOptions options_;
  ServiceOptions service_;
  TrainDevice device_;
  MemoryMeter* meter_ = nullptr;
  std::optional<Session> session_;
  Chain chain_;
  Platform platform_;
  MemoryBudget budget_;
  std::vector<Row> rows_;
};

int Fail(const std::string& message) {
  std::fprintf(stderr, "stowage-train: %s\n", message.c_str());
  return kExitError;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Trains a network on made-up data under a memory budget: profiles it, gets a schedule from "
      "a\n"
      "Stowage server or solves here, trains, and compares what was measured with what was\n"
      "predicted, with training without a schedule and with the best segments.\n"
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
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a job's log is read while it runs
  try {
    return stowage::Main(argc, argv);
  } catch (const std::exception& error) {  // LibTorch, outside of any stage
    std::fprintf(stderr, "stowage-train: %s\n", error.what());
    return 1;
  }
}
