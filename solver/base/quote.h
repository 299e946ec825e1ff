// Makes user-supplied text safe to repeat in messages: short, valid UTF-8, on one line. Pure,
// thread-safe.
#ifndef STOWAGE_SOLVER_BASE_QUOTE_H_
#define STOWAGE_SOLVER_BASE_QUOTE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace stowage {

// The first `max_bytes` bytes of `text`, truncated at a UTF-8 character boundary and followed by
// "..." when it is longer.
std::string Shortened(absl::string_view text, size_t max_bytes);

// `text` with "\xff" for each byte that is no part of a UTF-8 character.
std::string ValidUtf8(absl::string_view text);

// The same with "\u{202e}" for each character beyond ASCII that is not seen itself but changes how
// the others are shown, such as controls of the direction of writing.
std::string Visible(absl::string_view text);

// The same with spaces for ASCII's controls, which could forge lines or colours on a terminal.
std::string Printable(absl::string_view text);

// `text` in single quotes, shortened to 60 bytes, visible.
std::string Quoted(absl::string_view text);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_QUOTE_H_
