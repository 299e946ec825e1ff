// Writes a measured and a predicted step in the trace format of Chrome and Perfetto.
#ifndef STOWAGE_CLIENT_TRAIN_TRACE_H_
#define STOWAGE_CLIENT_TRAIN_TRACE_H_

#include <string>
#include <vector>

#include "client/agent/executor.h"
#include "client/agent/plan.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"

namespace stowage {

// Returns JSON with two processes, "measured" and "predicted", each with a thread for each queue
// and a counter of device memory. `predicted` is the simulator's timeline of the same operations.
// Source: Chromium, "Trace Event Format".
std::string TraceJson(const Plan& plan, const MeasuredStep& measured,
                      const std::vector<TimelineEntry>& predicted);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_TRACE_H_
