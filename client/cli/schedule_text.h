// A simulated schedule as text for a terminal: one screen, human units.
#ifndef STOWAGE_CLIENT_CLI_SCHEDULE_TEXT_H_
#define STOWAGE_CLIENT_CLI_SCHEDULE_TEXT_H_

#include <string>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/chain_warnings.h"
#include "solver/model/explanation.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// "resnet101: 38 stages; storing everything takes 165.5 ms a step and 3.82 GiB".
std::string ChainLine(const Chain& chain);

// A line each, indented; empty without warnings.
std::string WarningLines(const std::vector<ChainWarning>& warnings);

// "BACKWARD 4 (layer1.0)".
std::string NamedOperation(const Chain& chain, const Operation& operation);

// Budget, peak and its operation, makespan and overhead, memory over time, the values at the peak,
// the longest waits, and what happens to each stage's value.
std::string FiguresText(const Chain& chain, const Platform& platform, const Schedule& schedule,
                        const ExplainedSimulation& result);

// How many stages have a graph mode: "12 with a graph mode in 5 units".
std::string GraphModeSummary(const Chain& chain);

// The name of the schedule that needs M_high.
std::string StoreAllName(const Chain& chain);

// A budget as a share of the range from M_low (0 %) to M_high (100 %); empty where they are equal.
std::string RangeShare(const Chain& chain, int64_t memory_bytes);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_SCHEDULE_TEXT_H_
