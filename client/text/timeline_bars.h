// A schedule's memory over time as one line of bars, and its stages as one letter each.
#ifndef STOWAGE_CLIENT_TEXT_TIMELINE_BARS_H_
#define STOWAGE_CLIENT_TEXT_TIMELINE_BARS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "solver/model/explanation.h"
#include "solver/model/prediction.h"

namespace stowage {

// `columns` bars, each the most memory of the operations in its share of the makespan, the full
// height being `full_bytes`. Empty when the schedule takes no time.
std::string MemoryBars(const std::vector<TimelineEntry>& timeline, int64_t full_bytes, int columns);

// A letter a stage: 'g' in graph mode, '-' fused into the next one, ' ' in eager mode. Empty where
// all are.
std::string ModeLetters(const std::vector<StageFate>& stages);

// One letter a stage: S saved, c output kept (checkpoint), . dropped, O offloaded at least once.
std::string SweepLetters(const std::vector<StageFate>& stages);
// One character a stage: how often its forward runs again; a space for never, + for over nine
// times.
std::string RecomputeDigits(const std::vector<StageFate>& stages);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TEXT_TIMELINE_BARS_H_
