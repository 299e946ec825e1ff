// The text of a JSON document: what is wrong with it as JSON, by line, column and field. Pure,
// thread-safe.
#ifndef STOWAGE_SOLVER_JSON_JSON_TEXT_H_
#define STOWAGE_SOLVER_JSON_JSON_TEXT_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "solver/model/validate.h"

namespace stowage {

// Levels of objects and arrays that a document may have.
inline constexpr size_t kMaxJsonLevels = 32;

// What is wrong with a text: the path of the field, and the problem. nullopt: nothing.
//   "chain.stages[3]", "line 12, column 9: not JSON: unexpected end of input; expected '}'"
//   "chain.stages[3].name", "is given twice"
//   "chain", "is UTF-16; convert it to UTF-8"
// A null in an array is wrong, too, but for an array of a provenance. `root` is what paths begin
// with; that of a text with an empty one is "request" where it names no field. What is repeated of
// the text is valid UTF-8 of one line: other bytes are escaped as "\xff". Removes the byte order
// mark of UTF-8 from `json`.
std::optional<FieldViolation> JsonTextViolation(absl::string_view root, absl::string_view* json);

// The same as an error: INVALID_ARGUMENT, "chain.stages[3].name: is given twice".
absl::Status CheckJsonText(absl::string_view root, absl::string_view* json);

// An error of one line from what a parser says, which repeats parts of the text, of any length and
// with any bytes, such as keys with line breaks.
absl::Status UnreadableJson(absl::string_view problem);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_JSON_JSON_TEXT_H_
