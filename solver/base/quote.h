// Bounds user-supplied text before it is quoted in messages. Pure, thread-safe.
#ifndef STOWAGE_SOLVER_BASE_QUOTE_H_
#define STOWAGE_SOLVER_BASE_QUOTE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace stowage {

// The first `most_bytes` bytes of `text`, truncated at a UTF-8 character boundary and followed by
// "..." when it is longer.
std::string Shortened(absl::string_view text, size_t most_bytes);

// `text` in single quotes, shortened to 60 bytes.
std::string Quoted(absl::string_view text);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_QUOTE_H_
