#include "solver/model/modes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

absl::string_view ModeName(Mode mode) { return mode == Mode::kGraph ? "graph" : "eager"; }

std::string UnitName(const Unit& unit) {
  return unit.first == unit.last ? absl::StrCat("stage ", unit.last)
                                 : absl::StrCat("stages ", unit.first, " to ", unit.last);
}

// Collects the mode of every unit from the operations of a schedule and checks their consistency.
class ModesOfSchedule {
 public:
  // Borrows the units.
  ModesOfSchedule(const Chain& chain, const ChainUnits& units)
      : units_(units), unit_of_(static_cast<size_t>(chain.length()) + 2), modes_(units.size()) {
    for (size_t u = 0; u < units_.size(); ++u) {
      for (int l = units_[u].first; l <= units_[u].last; ++l) unit_of_[static_cast<size_t>(l)] = u;
    }
  }

  // Records the mode of one operation. Errors: INVALID_ARGUMENT for an operation that does not
  // match a unit or contradicts an earlier mode.
  absl::Status Add(const Operation& operation) {
    const int l = operation.stage;
    if (!IsCompute(operation.kind)) {
      if (operation.mode == Mode::kEager && operation.first_stage == 0) return absl::OkStatus();
      return absl::InvalidArgumentError("only a forward or a backward has a mode or a first_stage");
    }
    // MemoryWalk reports stages that do not exist.
    if (l < 1 || l >= static_cast<int>(unit_of_.size())) {
      return absl::OkStatus();
    }
    const Unit& unit = units_[unit_of_[static_cast<size_t>(l)]];
    if (operation.mode == Mode::kGraph) {
      RETURN_IF_ERROR(CheckUnit(operation, unit));
    } else if (operation.first() != l) {
      return absl::InvalidArgumentError("only an operation in graph mode covers several stages");
    }
    std::optional<Mode>& mode = modes_[unit_of_[static_cast<size_t>(l)]];
    if (mode.value_or(operation.mode) != operation.mode) {
      return absl::InvalidArgumentError(absl::StrCat(
          UnitName(unit), " ran in ", ModeName(*mode),
          " mode before; a stage, and with it its fusion group, keeps one mode throughout"));
    }
    mode = operation.mode;
    return absl::OkStatus();
  }

  // By unit: whether it runs in graph mode. Units without operations are eager.
  std::vector<bool> Graph() const {
    std::vector<bool> graph;
    graph.reserve(modes_.size());
    for (const std::optional<Mode>& mode : modes_) graph.push_back(mode == Mode::kGraph);
    return graph;
  }

 private:
  // An operation in graph mode must cover exactly its unit.
  static absl::Status CheckUnit(const Operation& operation, const Unit& unit) {
    if (!unit.has_graph) {
      return absl::InvalidArgumentError(
          absl::StrCat(UnitName(unit),
                       " cannot run in graph mode: without graph costs, or with "
                       "control_flow"));
    }
    if (operation.first() == unit.first && operation.stage == unit.last) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        UnitName(unit), unit.first == unit.last ? " is" : " are",
        " one unit in graph mode: set first_stage to ", unit.first, " and stage to ", unit.last));
  }

  const ChainUnits& units_;
  std::vector<size_t> unit_of_;             // by stage
  std::vector<std::optional<Mode>> modes_;  // by unit
};

}  // namespace

std::vector<bool> FastestModes(const Chain& chain, const ChainUnits& units) {
  // T(u, mode), the least time of units 1..u with unit u in `mode`:
  //   T(u, eager) = min over m of T(u-1, m) + eager time of u
  //   T(u, graph) = min(T(u-1, graph), T(u-1, eager) + entry) + graph time of u
  // after_graph records the mode of unit u-1 that attains the minimum.
  struct Least {
    double seconds = 0;
    bool after_graph = false;
  };
  struct Modes {
    Least eager;
    Least graph;
  };
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<Modes> least = {{{0, false}, {kNone, false}}};
  for (const Unit& unit : units) {
    const Modes before = least.back();
    Modes& after = least.emplace_back();
    after.eager = {before.eager.seconds, false};
    if (before.graph.seconds < before.eager.seconds) after.eager = {before.graph.seconds, true};
    for (int l = unit.first; l <= unit.last; ++l) {
      after.eager.seconds += chain.stage(l).forward_seconds + chain.stage(l).backward_seconds;
    }
    after.graph = {kNone, false};
    if (!unit.has_graph) continue;
    const Stage fused = GraphStage(chain, unit);
    after.graph = {before.eager.seconds + chain.graph_entry_seconds, false};
    if (before.graph.seconds <= after.graph.seconds) after.graph = {before.graph.seconds, true};
    after.graph.seconds += fused.forward_seconds + fused.backward_seconds;
  }
  // Follow the recorded choices back from the last unit.
  std::vector<bool> graph(units.size());
  bool in_graph = least.back().graph.seconds < least.back().eager.seconds;
  for (size_t u = units.size(); u > 0; --u) {
    graph[u - 1] = in_graph;
    in_graph = in_graph ? least[u].graph.after_graph : least[u].eager.after_graph;
  }
  return graph;
}

// Lists the stages of the executed chain in order, the loss last, and records both numberings.
Execution Execution::Of(const Chain& chain, const ChainUnits& units,
                        const std::vector<bool>& graph) {
  Execution execution;
  execution.graph_ = graph;
  Chain& executed = execution.chain_;
  executed.name = chain.name;
  executed.input_bytes = chain.input_bytes;
  executed.input_gradient_bytes = chain.gradient_bytes(0);
  // Value 0, the input, has the same number in both chains.
  execution.numbers_.push_back(0);
  execution.executed_.assign(static_cast<size_t>(chain.length()) + 2, -1);
  execution.executed_[0] = 0;
  const auto add = [&execution, &executed](const Unit& unit, Stage stage) {
    execution.executed_[static_cast<size_t>(unit.last)] =
        static_cast<int>(execution.numbers_.size());
    execution.numbers_.push_back(unit.last);
    execution.units_.push_back(unit);
    executed.stages.push_back(std::move(stage));
  };
  for (size_t u = 0; u < units.size(); ++u) {
    if (graph[u]) {
      add(units[u], GraphStage(chain, units[u]));
      continue;
    }
    for (int l = units[u].first; l <= units[u].last; ++l) {
      add({l, l, false}, EagerStage(chain.stage(l)));
    }
  }
  // The last stage is the loss: it is never fused with others (see Violations()).
  executed.loss = std::move(executed.stages.back());
  executed.stages.pop_back();
  return execution;
}

absl::StatusOr<Execution> Execution::Of(const Chain& chain, const ChainUnits& units,
                                        const Schedule& schedule) {
  ModesOfSchedule modes(chain, units);
  for (size_t i = 0; i < schedule.operations.size(); ++i) {
    const absl::Status status = modes.Add(schedule.operations[i]);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(OperationPath(schedule, i, chain.length()),
                                                      ": ", status.message()));
    }
  }
  return Of(chain, units, modes.Graph());
}

int Execution::Entries() const {
  int entries = 0;
  for (int e = 1; e <= static_cast<int>(units_.size()); ++e) entries += Enters(e) ? 1 : 0;
  return entries;
}

Operation Execution::FromChain(const Operation& operation) const {
  const auto l = static_cast<size_t>(operation.stage);
  const bool is_there = operation.stage >= 0 && l < executed_.size();
  return {.kind = operation.kind,
          .stage = is_there ? executed_[l] : -1,
          .save_option = operation.save_option};
}

Operation Execution::ToChain(const Operation& operation) const {
  Operation original{.kind = operation.kind,
                     .stage = numbers_[static_cast<size_t>(operation.stage)],
                     .save_option = operation.save_option};
  if (!IsCompute(operation.kind)) return original;
  const Unit unit = this->unit(operation.stage);
  original.mode = mode(operation.stage);
  if (unit.first != unit.last) original.first_stage = unit.first;
  return original;
}

Schedule Execution::FromChain(const Schedule& schedule) const {
  Schedule executed;
  executed.operations.reserve(schedule.operations.size());
  for (const Operation& operation : schedule.operations) {
    executed.operations.push_back(FromChain(operation));
  }
  return executed;
}

Schedule Execution::ToChain(const Schedule& schedule) const {
  Schedule original;
  original.operations.reserve(schedule.operations.size());
  for (const Operation& operation : schedule.operations) {
    original.operations.push_back(ToChain(operation));
  }
  return original;
}

bool HasGraphOperations(const Schedule& schedule) {
  return std::any_of(schedule.operations.begin(), schedule.operations.end(),
                     [](const Operation& operation) {
                       return operation.mode == Mode::kGraph || operation.first_stage != 0;
                     });
}

double ComputeSeconds(const Chain& chain) { return ComputeSeconds(chain, ChainUnits(chain)); }

double ComputeSeconds(const Chain& chain, const ChainUnits& units) {
  if (!units.HasGraph()) return EagerSeconds(chain);
  const Execution fastest = Execution::Of(chain, units, FastestModes(chain, units));
  return EagerSeconds(fastest.chain()) + fastest.Entries() * chain.graph_entry_seconds;
}

double EagerSeconds(const Chain& chain) {
  double sum = chain.loss.forward_seconds + chain.loss.backward_seconds;
  for (const Stage& stage : chain.stages) sum += stage.forward_seconds + stage.backward_seconds;
  return sum;
}

}  // namespace stowage
