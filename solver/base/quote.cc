#include "solver/base/quote.h"

#include "absl/strings/str_cat.h"

namespace stowage {

std::string Shortened(absl::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  size_t end = most_bytes;
  // 10xxxxxx continues a character: go back to where it starts.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), "...");
}

std::string Quoted(absl::string_view text) {
  constexpr size_t kMostBytes = 60;
  return absl::StrCat("'", Shortened(text, kMostBytes), "'");
}

}  // namespace stowage
