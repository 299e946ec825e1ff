// Chains and platforms as JSON, without protobuf: byte for byte what proto/convert/json.h writes,
// where names have no invisible characters beyond ASCII, which that escapes.
// Pure, thread-safe.
#ifndef STOWAGE_SOLVER_MODEL_JSON_H_
#define STOWAGE_SOLVER_MODEL_JSON_H_

#include <string>

#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// The format of solver/README.md, "Chain" and "Platform": indented, 64-bit integers as strings,
// every field but those without a value, ends with a newline. Names are valid UTF-8 in it: other
// bytes are escaped as "\xff".
std::string ToJson(const Chain& chain);
std::string ToJson(const Platform& platform);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_JSON_H_
