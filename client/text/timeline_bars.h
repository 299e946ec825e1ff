// A schedule on a terminal: memory over time as a line of bars, stages as one letter each.
#ifndef STOWAGE_CLIENT_TEXT_TIMELINE_BARS_H_
#define STOWAGE_CLIENT_TEXT_TIMELINE_BARS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "solver/model/explanation.h"
#include "solver/model/prediction.h"

namespace stowage {

// `columns` bars of equal shares of the makespan. A bar's height is the highest memory of the
// operations that run in its share, relative to `full_bytes`. Empty for a makespan of 0.
std::string MemoryBars(const std::vector<TimelineEntry>& timeline, int64_t full_bytes, int columns);

// One letter a stage: 'g' in graph mode, '-' fused into the next one, ' ' in eager mode. Empty
// where all stages are in eager mode.
std::string ModeLetters(const std::vector<StageFate>& stages);

// One letter a stage for the first sweep: S saved, c checkpoint, . discarded; O offloaded at least
// once, in any sweep.
std::string SweepLetters(const std::vector<StageFate>& stages);
// One character a stage: how often its forward is recomputed; a space for 0, + for more than 9.
std::string RecomputeDigits(const std::vector<StageFate>& stages);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TEXT_TIMELINE_BARS_H_
