// JSON as text, byte for byte what proto/convert/json.h writes, where strings have no invisible
// characters beyond ASCII, which that escapes. Pure, thread-safe.
#ifndef STOWAGE_SOLVER_JSON_PRINT_JSON_H_
#define STOWAGE_SOLVER_JSON_PRINT_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// In quotes, with escapes, as protobuf escapes: "<" and ">" as well, so that it may stand in HTML.
std::string ToJsonString(absl::string_view text);

// The format of solver/README.md, "Chain" and "Platform": indented, 64-bit integers as strings,
// every field but those without a value, ends with a newline. Names are valid UTF-8 in it: other
// bytes are escaped as "\xff".
std::string ToJson(const Chain& chain);
std::string ToJson(const Platform& platform);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_JSON_PRINT_JSON_H_
