#include "solver/export/name_pattern.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace stowage {
namespace {

bool EndsPart(char c) { return c == '.' || c == '/'; }

// The position behind the pattern's match at `at`; nullopt: it does not match there. A number takes
// all digits, so there is nothing to try again.
std::optional<size_t> MatchAt(absl::string_view pattern, absl::string_view name, size_t at) {
  while (!pattern.empty()) {
    if (absl::ConsumePrefix(&pattern, kNumber)) {
      const size_t begin = at;
      while (at < name.size() && absl::ascii_isdigit(name[at])) ++at;
      if (at == begin) return std::nullopt;
    } else {
      if (at == name.size() || name[at] != pattern[0]) return std::nullopt;
      pattern.remove_prefix(1);
      ++at;
    }
  }
  if (at < name.size() && !EndsPart(name[at])) return std::nullopt;
  return at;
}

}  // namespace

std::optional<absl::string_view> MatchedName(absl::string_view pattern, absl::string_view name) {
  constexpr size_t kMaxBytes = 1024;  // of a name; bounds the time
  if (name.size() > kMaxBytes) return std::nullopt;
  absl::ConsumeSuffix(&pattern, ".");
  for (size_t at = 0; at < name.size(); ++at) {
    if (at > 0 && !EndsPart(name[at - 1])) continue;
    if (const auto end = MatchAt(pattern, name, at)) return name.substr(0, *end);
  }
  return std::nullopt;
}

}  // namespace stowage
