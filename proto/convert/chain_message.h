// Chain, Platform and Job between messages and solver types. Loses nothing but Chain.provenance,
// which no solver reads; checks nothing but what solver types cannot express. Thread-safe.
#ifndef STOWAGE_PROTO_CONVERT_CHAIN_MESSAGE_H_
#define STOWAGE_PROTO_CONVERT_CHAIN_MESSAGE_H_

#include <vector>

#include "solver/model/chain.h"
#include "solver/model/job.h"
#include "solver/model/platform.h"
#include "solver/model/validate.h"
#include "stowage/v1/model.pb.h"

namespace stowage {

Chain FromMessage(const v1::Chain& message);
v1::Chain ToMessage(const Chain& chain);

Platform FromMessage(const v1::Platform& message);
v1::Platform ToMessage(const Platform& platform);

// Sets `violations` to components whose phase this version does not know.
TrainingJob FromMessage(const v1::Job& message, std::vector<FieldViolation>* violations);
v1::Component ToMessage(const Component& component);
v1::Job ToMessage(const TrainingJob& job);

// A platform without memory_bytes, which a Platform cannot tell from one with none.
std::vector<FieldViolation> MissingFields(const v1::Platform& message);

}  // namespace stowage

#endif  // STOWAGE_PROTO_CONVERT_CHAIN_MESSAGE_H_
