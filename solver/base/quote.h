// User text inside our own messages.
#ifndef STOWAGE_SOLVER_BASE_QUOTE_H_
#define STOWAGE_SOLVER_BASE_QUOTE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace stowage {

// At most `most_bytes` of `text`, cut between characters of UTF-8, with "..." where it was cut.
std::string Shortened(absl::string_view text, size_t most_bytes);

// 'text' in quotes, short enough for a message whatever the user wrote.
std::string Quoted(absl::string_view text);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_QUOTE_H_
