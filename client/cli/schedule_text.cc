#include "client/cli/schedule_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/table.h"
#include "client/text/timeline_bars.h"
#include "solver/base/quote.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

using Align = Table::Align;

constexpr int kColumns = 72;          // of the bars and of a line of stages
constexpr size_t kMaxStageLines = 4;  // more would not fit a screen

std::string StageName(const Chain& chain, int l) {
  if (l == 0) return "the input";
  if (l == chain.length() + 1) return "the loss";
  const std::string& name = chain.stage(l).name;
  return name.empty() ? absl::StrCat("stage ", l) : absl::StrCat("stage ", l, " (", name, ")");
}

std::string HoldingName(const Chain& chain, const Holding& holding) {
  switch (holding.kind) {
    case Holding::Kind::kOutput:
      return holding.stage == 0 ? "the input" : "output of " + StageName(chain, holding.stage);
    case Holding::Kind::kSaved:
      return "saved by " + StageName(chain, holding.stage);
    case Holding::Kind::kGradient:
      return "gradient of " + StageName(chain, holding.stage);
    case Holding::Kind::kOverhead:
      return "temporary, of the operation itself";
  }
  return "";
}

// "45 % of the way from 1 GiB (memory floor) to 4 GiB (store all)"; the range alone where the
// budget is not inside it.
std::string BudgetShare(const Chain& chain, int64_t memory_bytes) {
  const int64_t low = FloorOfMemory(chain).bytes;
  const int64_t high = StoreAllPeakBytes(chain);
  std::string range = absl::StrCat("from ", FormatBytes(low), " (memory floor) to ",
                                   FormatBytes(high), " (", StoreAllName(chain), ")");
  if (memory_bytes >= high || high == low) return range;
  return absl::StrCat(RangeShare(chain, memory_bytes), " of the way ", range);
}

std::string Share(int64_t part, int64_t whole) {
  return whole > 0 ? FormatPercent(static_cast<double>(part) / static_cast<double>(whole)) : "";
}

// Transfers of one step.
struct Traffic {
  int64_t bytes = 0;
  double out_seconds = 0;
  double in_seconds = 0;
};

Traffic TrafficOf(const Chain& chain, const Schedule& schedule,
                  const std::vector<TimelineEntry>& timeline) {
  // Fused stages leave one value: count the transfers of the chain whose stages are the units.
  if (HasGraphOperations(schedule)) {
    const absl::StatusOr<Execution> execution = Execution::Of(chain, ChainUnits(chain), schedule);
    if (!execution.ok()) return {};  // unreachable: the schedule has been simulated
    return TrafficOf(execution->chain(), execution->FromChain(schedule), timeline);
  }
  Traffic traffic;
  // What the last forward of a stage left, ā^l or a^l: the value that an offload copies.
  std::vector<int64_t> bytes(static_cast<size_t>(chain.length()) + 2);
  bytes[0] = chain.input_bytes;
  for (size_t i = 0; i < schedule.operations.size(); ++i) {
    const Operation& operation = schedule.operations[i];
    const OperationKind kind = operation.kind;
    const int l = operation.stage;
    const double seconds = timeline[i].end_seconds - timeline[i].start_seconds;
    if (IsForward(kind)) {
      bytes[static_cast<size_t>(l)] =
          Saves(kind) ? chain.stage(l).SavedBytes(operation.save_option) : chain.output_bytes(l);
    }
    if (kind == OperationKind::kPrefetch) traffic.in_seconds += seconds;
    if (kind != OperationKind::kOffload) continue;
    traffic.bytes += bytes[static_cast<size_t>(l)];
    traffic.out_seconds += seconds;
  }
  return traffic;
}

// The link's rates and the shares of the makespan for which it is busy. Both directions of a
// half-duplex link add up to one share.
std::string LinkText(const Platform& platform, const Traffic& traffic, double makespan_seconds) {
  const auto busy = [makespan_seconds](double seconds) {
    return FormatPercent(makespan_seconds > 0 ? seconds / makespan_seconds : 0);
  };
  const double out = platform.offload_bytes_per_second;
  const double in = platform.prefetch_rate();
  const std::string rates = out == in ? FormatBytesPerSecond(out)
                                      : absl::StrCat(FormatBytesPerSecond(out), " out, ",
                                                     FormatBytesPerSecond(in), " back");
  if (platform.half_duplex) {
    return absl::StrCat("over one link of ", rates, ", busy ",
                        busy(traffic.out_seconds + traffic.in_seconds), " of the step");
  }
  return absl::StrCat("over ", rates, " each way, busy ", busy(traffic.out_seconds), " and ",
                      busy(traffic.in_seconds), " of the step");
}

std::string FigureTable(const Chain& chain, const Platform& platform, const Schedule& schedule,
                        const ExplainedSimulation& result) {
  const Prediction& prediction = result.simulation.prediction;
  const std::vector<Peak>& peaks = result.explanation.peaks;
  Table table({Align::kLeft, Align::kRight, Align::kLeft});
  table.Add(
      {"budget", FormatBytes(platform.memory_bytes), BudgetShare(chain, platform.memory_bytes)});
  table.Add({"peak", FormatBytes(prediction.peak_memory_bytes),
             peaks.empty()
                 ? ""
                 : absl::StrCat(Share(prediction.peak_memory_bytes, platform.memory_bytes),
                                " of the budget, at ",
                                OperationPath(schedule, peaks.front().operation, chain.length()))});
  if (prediction.peak_host_bytes > 0)
    table.Add({"on the host", FormatBytes(prediction.peak_host_bytes), ""});
  table.Add({"makespan", FormatSeconds(prediction.makespan_seconds),
             absl::StrFormat(
                 "%+.1f %% over %s", prediction.overhead * 100,
                 ChainUnits(chain).HasGraph() ? "a step with all memory" : "storing everything")});
  table.Add({"recompute", FormatSeconds(prediction.recompute_seconds), "what runs more than once"});
  table.Add({"idle", FormatSeconds(prediction.idle_seconds), "waiting for transfers"});
  table.Add({"lower bound", FormatSeconds(prediction.lower_bound_seconds),
             absl::StrCat("no schedule takes less; gap ", FormatPercent(prediction.gap))});
  if (platform.has_link()) {
    const Traffic traffic = TrafficOf(chain, schedule, result.timeline);
    table.Add({"offloaded", FormatBytes(traffic.bytes),
               LinkText(platform, traffic, prediction.makespan_seconds)});
  }
  return table.ToString(2);
}

// Explain() lists only the largest values at the peak; the rest is one row.
std::string PeakTable(const Chain& chain, const Schedule& schedule, const Peak& peak) {
  Table table({Align::kRight, Align::kLeft});
  for (const Holding& holding : peak.holdings) {
    table.Add({FormatBytes(holding.bytes), HoldingName(chain, holding)});
  }
  if (peak.other_bytes > 0) table.Add({FormatBytes(peak.other_bytes), "other values"});
  return absl::StrCat("\nheld at the peak, ",
                      NamedOperation(chain, schedule.operations[peak.operation]), "\n",
                      table.ToString(2));
}

// The longest waits of the compute queue, and the transfers that cause them.
std::string IdleTable(const Chain& chain, const Schedule& schedule,
                      const std::vector<Idle>& idles) {
  constexpr size_t kShown = 3;
  Table table({Align::kRight, Align::kLeft});
  for (size_t i = 0; i < std::min(kShown, idles.size()); ++i) {
    const Idle& idle = idles[i];
    const std::string what =
        idle.waits_for.has_value()
            ? absl::StrCat(" waits for ", OperationPath(schedule, *idle.waits_for, chain.length()))
            : "";
    table.Add({FormatSeconds(idle.seconds),
               OperationPath(schedule, idle.operation, chain.length()) + what});
  }
  return absl::StrCat("\nlongest waits\n", table.ToString(2));
}

// Counts of the stages' fates and, where it fits a screen, a map in lines of kColumns stages: the
// letters of the first sweep, the modes, and how often each stage is recomputed.
std::string StageMap(const std::vector<StageFate>& stages) {
  const std::string letters = SweepLetters(stages);
  const std::string digits = RecomputeDigits(stages);
  const auto count = [&letters](char c) { return std::count(letters.begin(), letters.end(), c); };
  int recomputed = 0;
  for (const StageFate& fate : stages) recomputed += fate.recomputed > 0 ? 1 : 0;
  std::string text =
      absl::StrCat("\nstages in the first sweep: ", count('S'), " saved (S), ", count('c'),
                   " kept as checkpoint (c), ", count('.'), " dropped (.)",
                   count('O') > 0 ? absl::StrCat(", ", count('O'), " offloaded (O)") : "", "; ",
                   recomputed, " recomputed (times below)\n");
  const std::string modes = ModeLetters(stages);
  if (!modes.empty()) {
    const auto fused = std::count(modes.begin(), modes.end(), '-');
    absl::StrAppend(&text, std::count(modes.begin(), modes.end(), 'g') + fused,
                    " in graph mode (g), ", fused, " of them fused into the next (-)\n");
  }
  if (letters.size() > kMaxStageLines * kColumns) return text;
  Table table({Align::kRight, Align::kLeft});
  for (size_t begin = 0; begin < letters.size(); begin += kColumns) {
    table.Add({absl::StrCat(begin + 1), letters.substr(begin, kColumns)});
    if (!modes.empty()) table.Add({"", modes.substr(begin, kColumns)});
    if (recomputed > 0) table.Add({"", digits.substr(begin, kColumns)});
  }
  return text + table.ToString(2);
}

}  // namespace

std::string GraphModeSummary(const Chain& chain) {
  int stages = 0;
  int units = 0;
  int kept_eager = 0;  // stages with graph costs in units that control_flow bars from graph mode
  for (const Unit& unit : ChainUnits(chain)) {
    if (unit.last > chain.length()) continue;  // the loss
    for (int l = unit.first; l <= unit.last && !unit.has_graph; ++l) {
      kept_eager += chain.stage(l).graph.has_value() ? 1 : 0;
    }
    if (!unit.has_graph) continue;
    ++units;
    stages += unit.last - unit.first + 1;
  }
  const std::string kept =
      kept_eager > 0 ? absl::StrCat(", ", kept_eager, " kept eager by control_flow") : "";
  return absl::StrCat(stages, " with a graph mode in ", units, units == 1 ? " unit" : " units",
                      kept);
}

std::string StoreAllName(const Chain& chain) {
  return ChainUnits(chain).HasGraph() ? "store all, all eager" : "store all";
}

std::string RangeShare(const Chain& chain, int64_t memory_bytes) {
  const int64_t low = FloorOfMemory(chain).bytes;
  const int64_t high = StoreAllPeakBytes(chain);
  if (high == low) return "";
  return FormatPercent(static_cast<double>(memory_bytes - low) / static_cast<double>(high - low));
}

std::string ChainLine(const Chain& chain) {
  if (ChainUnits(chain).HasGraph()) {
    return absl::StrCat(chain.name.empty() ? "unnamed chain" : chain.name, ": ", chain.length(),
                        " stages, ", GraphModeSummary(chain), "; with all memory a step takes ",
                        FormatSeconds(ComputeSeconds(chain)), ", storing everything in eager mode ",
                        FormatBytes(StoreAllPeakBytes(chain)), "\n");
  }
  return absl::StrCat(chain.name.empty() ? "unnamed chain" : chain.name, ": ", chain.length(),
                      " stages; storing everything takes ", FormatSeconds(ComputeSeconds(chain)),
                      " a step and ", FormatBytes(StoreAllPeakBytes(chain)), "\n");
}

std::string WarningLines(const std::vector<ChainWarning>& warnings) {
  std::string text;
  for (const ChainWarning& warning : warnings) {
    absl::StrAppend(&text, "  warning: ", Printable(warning.field), ": ",
                    Printable(warning.problem), "\n");
  }
  return text;
}

std::string NamedOperation(const Chain& chain, const Operation& operation) {
  const int l = operation.stage;
  const std::string name = l >= 1 && l <= chain.length() ? chain.stage(l).name : "";
  return name.empty() ? OperationText(operation, chain.length())
                      : absl::StrCat(OperationName(operation), " (", name, ")");
}

std::string FiguresText(const Chain& chain, const Platform& platform, const Schedule& schedule,
                        const ExplainedSimulation& result) {
  // The bars' full height is the budget, or the peak of a schedule that exceeds it.
  const Explanation& explanation = result.explanation;
  std::string text = FigureTable(chain, platform, schedule, result);
  const int64_t full =
      std::max(platform.memory_bytes, result.simulation.prediction.peak_memory_bytes);
  if (const std::string bars = MemoryBars(result.timeline, full, kColumns); !bars.empty()) {
    absl::StrAppend(&text, "\nmemory over the makespan, full height ", FormatBytes(full), "\n  ",
                    bars, "\n");
  }
  if (!explanation.peaks.empty()) {
    absl::StrAppend(&text, PeakTable(chain, schedule, explanation.peaks.front()));
  }
  if (!explanation.idles.empty())
    absl::StrAppend(&text, IdleTable(chain, schedule, explanation.idles));
  return text + StageMap(explanation.stages);
}

}  // namespace stowage
