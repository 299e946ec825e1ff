#include "client/text/timeline_bars.h"

#include <algorithm>
#include <array>

namespace stowage {

std::string MemoryBars(const std::vector<TimelineEntry>& timeline, int64_t full_bytes,
                       int columns) {
  // Eighths of the full height.
  constexpr std::array<const char*, 9> kBars = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double makespan = 0;
  for (const TimelineEntry& entry : timeline) makespan = std::max(makespan, entry.end_seconds);
  if (makespan <= 0 || full_bytes <= 0) return "";
  std::vector<int64_t> most(static_cast<size_t>(columns));
  const auto column = [&](double seconds) {
    const auto index = static_cast<size_t>(seconds / makespan * columns);
    return std::min(index, most.size() - 1);  // the makespan itself
  };
  // An operation counts in every column that its interval touches.
  for (const TimelineEntry& entry : timeline) {
    for (size_t i = column(entry.start_seconds); i <= column(entry.end_seconds); ++i) {
      most[i] = std::max(most[i], entry.memory_bytes);
    }
  }
  std::string bars;
  for (const int64_t bytes : most) {
    // Rounded to the nearest bar.
    const double share = static_cast<double>(bytes) / static_cast<double>(full_bytes);
    bars += kBars[static_cast<size_t>(std::clamp(share * 8 + 0.5, 0.0, 8.0))];
  }
  return bars;
}

std::string SweepLetters(const std::vector<StageFate>& stages) {
  std::string letters;
  for (const StageFate& fate : stages) {
    switch (fate.first_sweep) {
      case StageFate::FirstSweep::kSaved:
        letters += 'S';
        break;
      case StageFate::FirstSweep::kOutput:
        letters += 'c';
        break;
      case StageFate::FirstSweep::kNothing:
        letters += '.';
        break;
    }
    // Offloading overrides the letter of the first sweep: it may happen in any sweep.
    if (fate.offloaded > 0) letters.back() = 'O';
  }
  return letters;
}

std::string ModeLetters(const std::vector<StageFate>& stages) {
  std::string letters;
  bool any = false;
  for (const StageFate& fate : stages) {
    any = any || fate.mode == Mode::kGraph;
    letters += fate.mode == Mode::kEager ? ' ' : fate.fused_into != 0 ? '-' : 'g';
  }
  return any ? letters : "";
}

std::string RecomputeDigits(const std::vector<StageFate>& stages) {
  std::string digits;
  for (const StageFate& fate : stages) {
    const int times = fate.recomputed;
    digits += times == 0 ? ' ' : times > 9 ? '+' : static_cast<char>('0' + times);
  }
  return digits;
}

}  // namespace stowage
