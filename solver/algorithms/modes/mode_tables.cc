#include "solver/algorithms/modes/mode_tables.h"

#include <utility>

#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {}  // namespace

absl::StatusOr<ModeTables> ModeTables::Build(const Chain& chain, const Options& options,
                                             const SolveContext& context) {
  GraphUnits units(chain, options.grid.bytes);
  const RotorTable::Options table{.grid = options.grid, .levels = options.levels};
  // Each table is half of the progress.
  const auto half = [&context](double from) {
    SolveContext share = context;
    share.progress = [&context, from](double fraction) { context.Report(from + fraction / 2); };
    return share;
  };
  ASSIGN_OR_RETURN(RotorTable eager, RotorTable::Build(chain, table, half(0)));
  ASSIGN_OR_RETURN(RotorTable graph, RotorTable::Build(units.chain(), table, half(0.5)));
  return ModeTables(chain, std::move(units), std::move(eager), std::move(graph));
}

int64_t ModeTables::WorkingBytes(const Chain& chain, int64_t levels) {
  // There are at most as many units as stages, so neither table is larger than this.
  return SaturatingMultiply(2, RotorTable::WorkingBytes(chain, levels));
}

ModeTables::ModeTables(const Chain& chain, GraphUnits units, RotorTable eager, RotorTable graph)
    : units_(std::move(units)),
      eager_(std::move(eager)),
      graph_(std::move(graph)),
      entry_seconds_(chain.graph_entry_seconds),
      input_slots_(eager_.grid().Slots(chain.input_bytes)),
      shares_(static_cast<size_t>(std::max<int64_t>(0, eager_.levels() - input_slots_ + 1))) {
  // Prefix sums of forward and backward times.
  const auto sums = [](const Chain& of) {
    std::vector<double> seconds = {0};
    for (int l = 1; l <= of.length() + 1; ++l) {
      seconds.push_back(seconds.back() + of.stage(l).forward_seconds +
                        of.stage(l).backward_seconds);
    }
    return seconds;
  };
  eager_seconds_ = sums(chain);
  graph_seconds_ = sums(units_.chain());
}

// Every sub-sequence in graph mode is charged for entering it, whatever precedes it.
double ModeTables::GraphBase(int i, int j) const {
  return entry_seconds_ + graph_seconds_[static_cast<size_t>(units_.before(j))] -
         graph_seconds_[static_cast<size_t>(units_.before(i))];
}

// Tables hold what recomputation costs beyond the base time, in single precision.
double ModeTables::Eager(int i, int j, int64_t share) const {
  return EagerBase(i, j) + eager_.LostSecondsOf(i, j - 1, share);
}

double ModeTables::Graph(int i, int j, int64_t share) const {
  if (!units_.IsRun(i, j)) return kInfiniteSeconds;
  return GraphBase(i, j) + graph_.LostSecondsOf(units_.before(i), units_.before(j) - 1, share);
}

// The minimum over both modes, level by level, starting from infinity.
void ModeTables::FillFastest(int i, int j, double* seconds) const {
  std::fill(seconds, seconds + shares_, kInfiniteSeconds);
  eager_.LowerToLostSeconds(i, j - 1, EagerBase(i, j), {seconds, shares_});
  if (!units_.IsRun(i, j)) return;
  graph_.LowerToLostSeconds(units_.before(i), units_.before(j) - 1, GraphBase(i, j),
                            {seconds, shares_});
}

std::optional<Schedule> ModeTables::ScheduleOf(const SubSequence& sequence) const {
  const int i = sequence.begin;
  const int j = sequence.end;
  if (sequence.mode == Mode::kEager) return eager_.PartScheduleAt(i, j - 1, sequence.share);
  std::optional<Schedule> schedule =
      graph_.PartScheduleAt(units_.before(i), units_.before(j) - 1, sequence.share);
  if (!schedule.has_value()) return std::nullopt;
  return units_.ToChain(*std::move(schedule));
}

std::optional<Schedule> JoinSubSequences(const std::vector<Schedule>& sequences) {
  Schedule joined;
  // Forward parts in order; `backward` is where each of the sequences' backward parts begins.
  std::vector<std::vector<Operation>::const_iterator> backward;
  for (const Schedule& sequence : sequences) {
    const std::vector<Operation>& operations = sequence.operations;
    const auto is_backward = [](const Operation& operation) {
      return operation.kind == OperationKind::kBackward;
    };
    backward.push_back(std::find_if(operations.begin(), operations.end(), is_backward));
    joined.operations.insert(joined.operations.end(), operations.begin(), backward.back());
    if (joined.operations.size() > kMaxOperations) return std::nullopt;
  }
  // Backward parts from the last sub-sequence to the first.
  for (size_t i = sequences.size(); i > 0; --i) {
    joined.operations.insert(joined.operations.end(), backward[i - 1],
                             sequences[i - 1].operations.end());
    if (joined.operations.size() > kMaxOperations) return std::nullopt;
  }
  return joined;
}

std::optional<Schedule> ModeTables::ToSchedule(const std::vector<SubSequence>& sequences) const {
  std::vector<Schedule> schedules;
  for (const SubSequence& sequence : sequences) {
    std::optional<Schedule> schedule = ScheduleOf(sequence);
    if (!schedule.has_value()) return std::nullopt;
    schedules.push_back(*std::move(schedule));
  }
  return JoinSubSequences(schedules);
}

}  // namespace stowage
