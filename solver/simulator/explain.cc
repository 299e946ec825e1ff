#include "solver/simulator/explain.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include "solver/simulator/memory_walk.h"

namespace stowage {
namespace {

// The indices of the kPeaksShown operations with the highest memory, in program order, which is the
// order in which Peaks() replays them. Of equal ones the first.
std::vector<size_t> HighestOperations(const std::vector<TimelineEntry>& timeline) {
  std::vector<size_t> indices(timeline.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  const size_t count = std::min(kPeaksShown, indices.size());
  std::partial_sort(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(count),
                    indices.end(), [&timeline](size_t a, size_t b) {
                      return std::pair(-timeline[a].memory_bytes, a) <
                             std::pair(-timeline[b].memory_bytes, b);
                    });
  indices.resize(count);
  std::sort(indices.begin(), indices.end());
  return indices;
}

// Sorts the holdings by size and folds those beyond kHoldingsShown into other_bytes.
Peak MakePeak(size_t operation, std::vector<Holding> holdings) {
  Peak peak;
  peak.operation = operation;
  std::stable_sort(holdings.begin(), holdings.end(),
                   [](const Holding& a, const Holding& b) { return a.bytes > b.bytes; });
  for (size_t i = 0; i < holdings.size(); ++i) {
    peak.memory_bytes += holdings[i].bytes;
    if (i >= kHoldingsShown) peak.other_bytes += holdings[i].bytes;
  }
  holdings.resize(std::min(holdings.size(), kHoldingsShown));
  peak.holdings = std::move(holdings);
  return peak;
}

// Replays the schedule once and records the holdings at each of the highest operations.
std::vector<Peak> Peaks(const Chain& chain, const Platform& platform, const Schedule& schedule,
                        const std::vector<TimelineEntry>& timeline) {
  std::vector<Peak> peaks;
  MemoryWalk walk(chain, platform);
  size_t next = 0;
  for (const size_t index : HighestOperations(timeline)) {
    for (; next < index; ++next) {
      const absl::Status status = walk.Execute(schedule.operations[next]);
      assert(status.ok());
      (void)status;
    }
    peaks.push_back(MakePeak(index, walk.HoldingsDuring(schedule.operations[index])));
  }
  std::stable_sort(peaks.begin(), peaks.end(),
                   [](const Peak& a, const Peak& b) { return a.memory_bytes > b.memory_bytes; });
  return peaks;
}

// The longest gaps between consecutive compute operations, and after the last one the wait for the
// final transfers.
std::vector<Idle> Idles(const Schedule& schedule, const std::vector<TimelineEntry>& timeline) {
  std::vector<Idle> idles;
  double compute_end = 0;
  double end = 0;
  size_t last = 0;  // the operation that ends last
  for (size_t i = 0; i < timeline.size(); ++i) {
    const TimelineEntry& entry = timeline[i];
    if (entry.end_seconds > end) last = i;
    end = std::max(end, entry.end_seconds);
    if (!IsCompute(schedule.operations[i].kind)) continue;
    const double wait = entry.start_seconds - compute_end;
    if (wait > 0) idles.push_back({i, wait, entry.waits_for});
    compute_end = entry.end_seconds;
  }
  if (end > compute_end) idles.push_back({timeline.size(), end - compute_end, last});
  std::stable_sort(idles.begin(), idles.end(),
                   [](const Idle& a, const Idle& b) { return a.seconds > b.seconds; });
  idles.resize(std::min(idles.size(), kIdlesShown));
  return idles;
}

// What the first forward of each stage leaves, and how often it is recomputed and offloaded. One
// that discards also removes what the stage before it left.
std::vector<StageFate> Fates(const Chain& chain, const Schedule& schedule) {
  using FirstSweep = StageFate::FirstSweep;
  const int loss = chain.length() + 1;
  // By value 0..L+1; the input and the loss are not returned.
  std::vector<StageFate> fates(static_cast<size_t>(loss) + 1);
  std::vector<int> forwards(fates.size());
  for (const Operation& operation : schedule.operations) {
    const int l = operation.stage;
    if (operation.kind == OperationKind::kOffload) ++fates[l].offloaded;
    if (!IsForward(operation.kind)) continue;
    fates[l].save_option = operation.save_option;  // in the end that of its last forward
    if (++forwards[l] > 1) {
      ++fates[l].recomputed;
      continue;
    }
    fates[l].first_sweep = Saves(operation.kind) ? FirstSweep::kSaved : FirstSweep::kOutput;
    if (Discards(operation.kind)) {
      fates[l - 1].first_sweep = FirstSweep::kNothing;
    }
  }
  for (int l = 1; l < loss; ++l) fates[l].stage = l;
  return {fates.begin() + 1, fates.end() - 1};
}

Explanation ExplainEager(const Chain& chain, const Platform& platform, const Schedule& schedule,
                         const std::vector<TimelineEntry>& timeline) {
  return {Peaks(chain, platform, schedule, timeline), Idles(schedule, timeline),
          Fates(chain, schedule), /*notes=*/{}};
}

// Expands the fates of the executed chain to the stages of the original one. All stages of a fused
// unit share its fate, but only the last one has a value that can be kept or offloaded.
std::vector<StageFate> ToChain(const Execution& execution, const std::vector<StageFate>& executed) {
  std::vector<StageFate> fates;
  for (const StageFate& fate : executed) {
    const Unit unit = execution.unit(fate.stage);
    for (int l = unit.first; l <= unit.last; ++l) {
      StageFate& one = fates.emplace_back(fate);
      one.stage = l;
      one.mode = execution.mode(fate.stage);
      if (l == unit.last) continue;
      one.fused_into = unit.last;
      one.offloaded = 0;
      if (one.first_sweep == StageFate::FirstSweep::kOutput) {
        one.first_sweep = StageFate::FirstSweep::kNothing;
      }
    }
  }
  return fates;
}

std::vector<MemoryByKind> EagerMemory(const Chain& chain, const Platform& platform,
                                      const Schedule& schedule) {
  std::vector<MemoryByKind> memory;
  memory.reserve(schedule.operations.size());
  MemoryWalk walk(chain, platform);
  for (const Operation& operation : schedule.operations) {
    memory.push_back(walk.BytesDuring(operation));
    const absl::Status status = walk.Execute(operation);
    assert(status.ok());
    (void)status;
  }
  return memory;
}

}  // namespace

std::vector<MemoryByKind> ExplainMemory(const Chain& chain, const Platform& platform,
                                        const Schedule& schedule) {
  const ChainUnits units(chain);
  const absl::StatusOr<ExecutedSchedule> executed = ExecutedSchedule::Of(chain, units, schedule);
  assert(executed.ok());
  return EagerMemory(executed->chain(), platform, executed->schedule());
}

Explanation Explain(const ExecutedSchedule& executed, const Platform& platform,
                    const std::vector<TimelineEntry>& timeline) {
  Explanation explanation = ExplainEager(executed.chain(), platform, executed.schedule(), timeline);
  const std::optional<Execution>& modes = executed.modes();
  if (!modes.has_value()) return explanation;
  // Convert the stage numbers back to those of the chain.
  for (Peak& peak : explanation.peaks) {
    for (Holding& holding : peak.holdings) {
      holding.stage = modes->numbers()[static_cast<size_t>(holding.stage)];
    }
  }
  explanation.stages = ToChain(*modes, explanation.stages);
  return explanation;
}

}  // namespace stowage
