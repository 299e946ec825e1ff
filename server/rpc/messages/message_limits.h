// Limits on requests that are checked before memory is spent on them: two bytes on the wire may be
// a hundred in memory, so that a message within the limit on bytes could take a gigabyte.
#ifndef STOWAGE_SERVER_RPC_MESSAGES_MESSAGE_LIMITS_H_
#define STOWAGE_SERVER_RPC_MESSAGES_MESSAGE_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "solver/model/chain.h"
#include "solver/model/request.h"
#include "solver/model/validate.h"

namespace stowage {

// Of a request that holds a name, a fingerprint or a level, and what a later client may add.
inline constexpr size_t kMaxBriefRequestBytes = 4096;

// The largest request that this server accepts. The API's own limits hold as well.
struct RequestLimits {
  int stages = kMaxStages;
  int64_t memory_slots = kMaxMemorySlots;
};

// Counts what is in the bytes of a message of that type: more stages or operations than the API
// allows, or more fields than such a message needs, are violations. Short and malformed messages
// have none, since parsing them is cheap. O(bytes) time, no memory.
std::vector<FieldViolation> CountFields(absl::string_view bytes,
                                        const google::protobuf::Descriptor& type);

// How many messages, such as stages, are in the bytes of a message of that type, at all levels; but
// for operations. Reading, checking and hashing them takes most of the time of a request, however
// few bytes they have. Malformed bytes count up to where they cease to be a message. O(bytes) time,
// no memory.
int CountMessages(absl::string_view bytes, const google::protobuf::Descriptor& type);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_MESSAGES_MESSAGE_LIMITS_H_
