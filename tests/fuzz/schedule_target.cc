// Bytes that are always a chain, a platform and a schedule, so that none is wasted on their syntax:
//   0        stages, 1 to 5; whether both directions share the link
//   1 to 3   memory, host memory and bandwidth
//   then     for each stage and the loss six: seconds forward and backward, bytes of output, of
//            what is saved beyond it, of the gradient and of overheads; flags
//   then     one, and if that is odd for each stage one or three: whether it has a graph mode and
//            is fused into the stage before, seconds forward and backward, what it saves
//   the rest one operation a byte: what and in which mode, in its upper half, and of which stage,
//            in its lower half
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/model/validate.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "solver/solve/checked_answer.h"
#include "tests/fuzz/targets.h"

namespace stowage {
namespace {

constexpr OperationKind kKinds[] = {
    OperationKind::kForwardSave,    OperationKind::kForwardCheckpoint,
    OperationKind::kForwardDiscard, OperationKind::kBackward,
    OperationKind::kOffload,        OperationKind::kRelease,
    OperationKind::kPrefetch,       OperationKind::kForwardSaveDiscard,
};

// 0 past the end.
int Take(absl::string_view* bytes) {
  if (bytes->empty()) return 0;
  const auto first = static_cast<unsigned char>(bytes->front());
  bytes->remove_prefix(1);
  return first;
}

Stage TakeStage(absl::string_view* bytes) {
  Stage stage;
  const int times = Take(bytes);
  stage.forward_seconds = times % 16;
  const int backward = times / 16;
  stage.backward_seconds = backward;
  stage.output_bytes = Take(bytes) % 32;
  stage.saved_bytes = stage.output_bytes + Take(bytes) % 32;
  if (const int gradient = Take(bytes); gradient % 2 == 1) stage.gradient_bytes = gradient / 2;
  const int overheads = Take(bytes);
  stage.forward_overhead_bytes = overheads % 16;
  stage.backward_overhead_bytes = overheads / 16;
  const int flags = Take(bytes);
  stage.no_recompute = flags % 4 == 3;
  stage.no_offload = flags / 4 % 4 == 3;
  stage.control_flow = flags / 16 % 4 == 3;
  stage.input_unread = flags / 64 == 3;
  return stage;
}

// Up to two further ways to save the stage.
void TakeSaveOptions(absl::string_view* bytes, Stage* stage) {
  for (int left = Take(bytes) % 3; left > 0; --left) {
    SaveOption option;
    option.saved_bytes =
        stage->output_bytes + Take(bytes) % (stage->saved_bytes - stage->output_bytes + 1);
    const int more = Take(bytes);
    option.backward_seconds = stage->backward_seconds + more % 16;
    option.backward_overhead_bytes = more / 16;
    stage->save_options.push_back(option);
  }
}

// Graph costs, group by group, so that a group saves its output; or ways to save stages, of which a
// chain with graph costs has none; or neither.
void TakeModesOrWays(absl::string_view* bytes, Chain* chain) {
  const int modes = Take(bytes);
  if (modes % 4 == 2) {
    for (Stage& stage : chain->stages) TakeSaveOptions(bytes, &stage);
    TakeSaveOptions(bytes, &chain->loss);
  }
  if (modes % 2 == 0) return;
  chain->graph_entry_seconds = modes / 2 % 4;
  for (Stage& stage : chain->stages) stage.input_unread = false;
  chain->loss.input_unread = false;
  for (size_t i = 0; i < chain->stages.size(); ++i) {
    Stage& stage = chain->stages[i];
    const int shape = Take(bytes);
    if (shape % 4 != 0) {
      const int times = Take(bytes);
      const int backward_of_graph = times / 16;
      stage.graph =
          GraphCosts{static_cast<double>(times % 16), static_cast<double>(backward_of_graph),
                     stage.output_bytes + Take(bytes) % 32, shape / 16, shape / 32};
    }
    const bool joins = i > 0 && shape / 4 % 2 == 1 &&
                       stage.graph.has_value() == chain->stages[i - 1].graph.has_value();
    if (!joins) {
      stage.fusion_group = std::string(1, static_cast<char>('a' + i));
      continue;
    }
    stage.fusion_group = chain->stages[i - 1].fusion_group;
  }
}

// In graph mode, as one with its group where it is the last of it.
Operation InGraphMode(const Chain& chain, Operation operation) {
  operation.mode = Mode::kGraph;
  for (const Unit& unit : ChainUnits(chain)) {
    if (unit.last == operation.stage && unit.first != unit.last) operation.first_stage = unit.first;
  }
  return operation;
}

// In another way, which the stage may not have.
Operation InAnotherWay(Operation operation) {
  operation.save_option = 1 + operation.stage % 2;
  return operation;
}

struct Case {
  Chain chain;
  Platform platform;
  Schedule schedule;
};

Case Decode(absl::string_view bytes) {
  Case decoded;
  const int shape = Take(&bytes);
  decoded.platform.half_duplex = shape >= 128;
  decoded.platform.memory_bytes = Take(&bytes);
  decoded.platform.host_memory_bytes = Take(&bytes) % 64;
  decoded.platform.offload_bytes_per_second = Take(&bytes) % 16;
  decoded.chain.input_bytes = 10;
  for (int l = 0; l < shape % 5 + 1; ++l) decoded.chain.stages.push_back(TakeStage(&bytes));
  decoded.chain.loss = TakeStage(&bytes);
  decoded.chain.loss.gradient_bytes.reset();
  TakeModesOrWays(&bytes, &decoded.chain);
  while (!bytes.empty()) {
    const int byte = Take(&bytes);
    const auto kind = static_cast<size_t>(byte / 16);
    Operation operation{kKinds[kind % std::size(kKinds)], byte % 16};
    if (kind >= std::size(kKinds)) {
      operation = decoded.chain.has_save_options() ? InAnotherWay(operation)
                                                   : InGraphMode(decoded.chain, operation);
    }
    decoded.schedule.operations.push_back(operation);
  }
  return decoded;
}

void RequireSame(const Simulation& a, const Simulation& b) {
  Require(a.prediction.makespan_seconds == b.prediction.makespan_seconds &&
              a.prediction.peak_memory_bytes == b.prediction.peak_memory_bytes &&
              a.prediction.peak_host_bytes == b.prediction.peak_host_bytes &&
              a.first_over_limit == b.first_over_limit,
          "two simulations of one schedule differ");
}

void Check(const Case& given, const Simulation& simulation,
           const std::vector<TimelineEntry>& timeline) {
  const Prediction& prediction = simulation.prediction;
  Require(timeline.size() == given.schedule.operations.size(), "an operation without an entry");
  int64_t peak = 0;
  int64_t host = 0;
  double end = 0;
  for (const TimelineEntry& entry : timeline) {
    Require(entry.start_seconds <= entry.end_seconds, "an operation that ends before it starts");
    peak = std::max(peak, entry.memory_bytes);
    host = std::max(host, entry.host_bytes);
    end = std::max(end, entry.end_seconds);
  }
  Require(peak == prediction.peak_memory_bytes, "the peak is not the timeline's");
  Require(host == prediction.peak_host_bytes, "the host's peak is not the timeline's");
  Require(end == prediction.makespan_seconds, "the makespan is not the timeline's");
  Require(peak >= FloorOfMemory(given.chain).bytes, "a peak below the floor");
  if (simulation.feasible()) {
    Require(prediction.lower_bound_seconds <= prediction.makespan_seconds * (1 + 1e-12),
            "faster than any schedule");
    Require(peak <= given.platform.memory_bytes, "feasible, and over the budget");
  }
  // The schedule fits what it needs and nothing less.
  Platform exact = given.platform;
  exact.host_memory_bytes = 0;
  exact.memory_bytes = peak;
  Require(SimulateWithBound(given.chain, exact, given.schedule)->feasible(),
          "it does not fit its peak");
  if (peak == 0) return;
  exact.memory_bytes = peak - 1;
  Require(!SimulateWithBound(given.chain, exact, given.schedule)->feasible(),
          "it fits below its peak");
}

}  // namespace

void FuzzSchedule(absl::string_view bytes) {
  const Case given = Decode(bytes);
  Require(Violations(given.chain).empty() && Violations(given.platform).empty(), "not valid");
  if (!Violations(given.schedule).empty()) return;
  std::vector<TimelineEntry> timeline;
  const auto simulation = SimulateWithBound(given.chain, given.platform, given.schedule, &timeline);
  const auto without = Simulate(given.chain, given.platform, given.schedule);
  const auto explained =
      SimulateAndExplain(given.chain, ChainUnits(given.chain), given.platform, given.schedule);
  Require(simulation.ok() == without.ok() && simulation.ok() == explained.ok(), "valid or not");
  if (!simulation.ok()) {
    Require(simulation.status().message().substr(0, 11) == "operations[", "no operation is named");
    return;
  }
  RequireSame(*simulation, *without);
  RequireSame(*simulation, explained->simulation);
  Check(given, *simulation, timeline);
}

std::vector<std::string> ScheduleSeeds() {
  // What solvers find for a few chains, in those bytes: plain ones, of two modes, and of two ways
  // to save, of which every stage has the one that InAnotherWay() gives it.
  std::vector<std::string> seeds;
  const std::string plain(1, 0);
  const std::string modes = std::string("\x03") + "\x01\x11\x04" + "\x01\x10\x01" + "\x05\x01\x02" +
                            "\x01\x20\x08" + "\x01\x11\x04";
  const std::string ways = std::string("\x02") + "\x02\x05\x0f\x02\x31" + "\x01\x02\x01" +
                           "\x02\x05\x0f\x02\x31" + "\x01\x02\x01" + "\x02\x05\x0f\x02\x31" +
                           "\x01\x02\x01";
  for (const char* solver : {"store_all", "rotor", "revolve", "pofo", "mixed_mode", "auto"}) {
    for (const int memory : {60, 90, 200}) {
      for (const std::string& costs : {plain, modes, ways}) {
        std::string bytes = {4, static_cast<char>(memory), 0, 3};
        for (int l = 1; l <= 6; ++l) bytes += std::string("\x21\x0a\x05\0\0\0", 6);
        bytes += costs;
        Case decoded = Decode(bytes);
        decoded.platform.memory_bytes = memory;
        SolveRequest request;
        request.chain = decoded.chain;
        request.platform = decoded.platform;
        request.solver = solver;
        const auto answer = AnswerRequest(request, {});
        if (!answer.ok()) continue;
        for (const Operation& operation : answer->schedule.operations) {
          const auto* const kind = std::find(std::begin(kKinds), std::end(kKinds), operation.kind);
          const bool other = operation.mode == Mode::kGraph || operation.save_option != 0;
          const auto more = other ? std::ssize(kKinds) : 0;
          bytes.push_back(static_cast<char>((kind - kKinds + more) * 16 + operation.stage));
        }
        seeds.push_back(bytes);
      }
    }
  }
  return seeds;
}

}  // namespace stowage
