// Requests between messages and domain types. Thread-safe.
#ifndef STOWAGE_PROTO_CONVERT_REQUEST_MESSAGE_H_
#define STOWAGE_PROTO_CONVERT_REQUEST_MESSAGE_H_

#include <vector>

#include "solver/model/request.h"
#include "solver/model/validate.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// Sets `violations` to what the result cannot express; RequestViolations() checks the rest.
SolveRequest FromMessage(const v1::SolveRequest& message, std::vector<FieldViolation>* violations);
FrontierRequest FromMessage(const v1::FrontierRequest& message);
SimulateRequest FromMessage(const v1::SimulateRequest& message,
                            std::vector<FieldViolation>* violations);
AdmitRequest FromMessage(const v1::AdmitRequest& message, std::vector<FieldViolation>* violations);

v1::SolveRequest ToMessage(const SolveRequest& request);
v1::FrontierRequest ToMessage(const FrontierRequest& request);
v1::SimulateRequest ToMessage(const SimulateRequest& request);
v1::AdmitRequest ToMessage(const AdmitRequest& request);

}  // namespace stowage

#endif  // STOWAGE_PROTO_CONVERT_REQUEST_MESSAGE_H_
