// JSON as text, byte for byte what proto/convert/json.h writes. Pure, thread-safe.
#ifndef STOWAGE_SOLVER_JSON_PRINT_JSON_H_
#define STOWAGE_SOLVER_JSON_PRINT_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "solver/model/chain.h"

namespace stowage {

// In quotes, with escapes, as protobuf escapes: "<" and ">" as well, so that it may stand in HTML,
// and characters that nobody sees. Bytes that are no UTF-8 become "\\xff".
std::string ToJsonString(absl::string_view text);

// Indented by one space a level, a member or an element a line. Ends with a newline.
std::string PrintJson(const nlohmann::ordered_json& json);

// The format of solver/README.md, "Chain": indented, 64-bit integers as strings, every field but
// those without a value, ends with a newline. Names are valid UTF-8 in it: other bytes are escaped
// as "\xff".
std::string ToJson(const Chain& chain);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_JSON_PRINT_JSON_H_
