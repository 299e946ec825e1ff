// The text of a JSON document: what is wrong with it as JSON, by line, column and field. Pure,
// thread-safe.
#ifndef STOWAGE_SOLVER_JSON_JSON_TEXT_H_
#define STOWAGE_SOLVER_JSON_JSON_TEXT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stowage {

// Levels of objects and arrays that a document may have.
inline constexpr size_t kMaxJsonLevels = 32;

// Removes the byte order mark of UTF-8 from `json`, which errors call `root`. Errors:
// INVALID_ARGUMENT, one line that names the field, as in
//   "chain.stages[3]: line 12, column 9: not JSON: unexpected end of input; expected '}'"
//   "chain.stages[3].name: is given twice"
//   "chain: is UTF-16; convert it to UTF-8".
// A null in an array is one, too, but for an array of a provenance. What errors repeat of the text
// is valid UTF-8: other bytes are escaped as "\xff".
absl::Status CheckJsonText(absl::string_view root, absl::string_view* json);

// An error of one line from what a parser says, which repeats parts of the text, of any length and
// with any bytes, such as keys with line breaks.
absl::Status UnreadableJson(absl::string_view problem);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_JSON_JSON_TEXT_H_
