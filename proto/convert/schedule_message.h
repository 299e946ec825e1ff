// Schedule between message and solver type. Thread-safe.
#ifndef STOWAGE_PROTO_CONVERT_SCHEDULE_MESSAGE_H_
#define STOWAGE_PROTO_CONVERT_SCHEDULE_MESSAGE_H_

#include <vector>

#include "solver/model/schedule.h"
#include "solver/model/validate.h"
#include "stowage/v1/model.pb.h"

namespace stowage {

// Operations of an unknown kind are added to `violations` and left out of the schedule, the first
// ten of them.
Schedule FromMessage(const v1::Schedule& message, std::vector<FieldViolation>* violations);
v1::Schedule ToMessage(const Schedule& schedule);
// The same into an empty message, wherever that lies.
void Fill(const Schedule& schedule, v1::Schedule* to);
v1::Operation ToMessage(const Operation& operation);

}  // namespace stowage

#endif  // STOWAGE_PROTO_CONVERT_SCHEDULE_MESSAGE_H_
