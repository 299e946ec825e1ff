// What the page of server/web shows, as a message. Thread-safe.
#ifndef STOWAGE_PROTO_CONVERT_VIEW_MESSAGE_H_
#define STOWAGE_PROTO_CONVERT_VIEW_MESSAGE_H_

#include <vector>

#include "solver/model/explanation.h"
#include "stowage/v1/view.pb.h"

namespace stowage {

// Fills `simulation` and `details`, one entry an operation each, and leaves the answer as it is.
// Requires: `memory` has one entry an operation.
void Fill(const ExplainedSimulation& simulation, const std::vector<MemoryByKind>& memory,
          v1::ViewedSchedule* message);

}  // namespace stowage

#endif  // STOWAGE_PROTO_CONVERT_VIEW_MESSAGE_H_
