// The figures of a simulated schedule as people read them: one screen, human units.
#ifndef STOWAGE_CLIENT_CLI_SCHEDULE_TEXT_H_
#define STOWAGE_CLIENT_CLI_SCHEDULE_TEXT_H_

#include <string>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"
#include "solver/solve/answer_request.h"

namespace stowage {

// "resnet101: 38 stages; storing everything takes 165.5 ms a step and 3.82 GiB".
std::string ChainLine(const Chain& chain);

// "BACKWARD 4 (layer1.0)".
std::string NamedOperation(const Chain& chain, const Operation& operation);

// Budget, peak and where it is, makespan and what it costs against storing everything, memory over
// time, what becomes of the stages.
std::string FiguresText(const Chain& chain, const Platform& platform, const Schedule& schedule,
                        const ExplainedSimulation& result);

// "12 with a graph mode in 5 units", of the chain's stages.
std::string GraphModeSummary(const Chain& chain);

// What needs M_high: of chains with graph costs, storing everything in eager mode.
std::string StoreAllName(const Chain& chain);

// How far a budget lies from M_low (0 %) to M_high (100 %); empty where the two are equal.
std::string RangeShare(const Chain& chain, int64_t memory_bytes);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_SCHEDULE_TEXT_H_
