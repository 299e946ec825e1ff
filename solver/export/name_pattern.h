// Patterns of names, by which users of a framework name its layers: "layers.{n}".
#ifndef STOWAGE_SOLVER_EXPORT_NAME_PATTERN_H_
#define STOWAGE_SOLVER_EXPORT_NAME_PATTERN_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace stowage {

inline constexpr absl::string_view kNumber = "{n}";  // in a pattern: one or more digits

// The beginning of `name` up to the pattern's end: "model.layers.3" of "model.layers.3.mlp". A
// pattern matches from the beginning of a name, or behind a dot or slash, and up to the name's end,
// or in front of one; a dot at its own end counts for nothing. nullopt: it does not match,
// as no name of more than 1,024 bytes does.
// O(name * pattern). Pure, thread-safe.
std::optional<absl::string_view> MatchedName(absl::string_view pattern, absl::string_view name);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_EXPORT_NAME_PATTERN_H_
