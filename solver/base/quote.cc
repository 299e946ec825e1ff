#include "solver/base/quote.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stowage {
namespace {

uint8_t ByteAt(absl::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

// The length of the character at the start of `text`, which is not empty; 0: there is none. Not one
// are the second byte of a character alone, a longer form than needed, a surrogate and what is
// above U+10FFFF: RFC 3629, section 4, whose table bounds the second byte.
size_t CharacterBytes(absl::string_view text) {
  const uint8_t first = ByteAt(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  const uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (ByteAt(text, 1) < least || ByteAt(text, 1) > most) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((ByteAt(text, i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

// Of a character of `CharacterBytes(text)` bytes, more than one.
uint32_t CodePoint(absl::string_view character) {
  uint32_t point = ByteAt(character, 0) & (0xFF >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) point = point << 6 | (ByteAt(character, i) & 0x3F);
  return point;
}

// Whether it is not seen but changes what is: how a terminal shows the text, in which order, or
// where its lines end.
bool IsHidden(uint32_t point) {
  return (point >= 0x80 && point <= 0x9F) ||      // C1 controls
         point == 0x61C ||                        // a mark of direction
         (point >= 0x200E && point <= 0x200F) ||  // marks of direction
         (point >= 0x2028 && point <= 0x202E) ||  // ends of lines; embeddings and overrides
         (point >= 0x2066 && point <= 0x2069);    // isolates
}

}  // namespace

std::string Shortened(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  // 10xxxxxx continues a character: go back to where it starts.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), "...");
}

std::string ValidUtf8(absl::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterBytes(text);
    if (length == 0) {
      absl::StrAppendFormat(&valid, "\\x%02x", ByteAt(text, 0));
      text.remove_prefix(1);
    } else {
      absl::StrAppend(&valid, text.substr(0, length));
      text.remove_prefix(length);
    }
  }
  return valid;
}

std::string Visible(absl::string_view text) {
  const std::string valid = ValidUtf8(text);
  std::string visible;
  visible.reserve(valid.size());
  for (absl::string_view rest = valid; !rest.empty();) {
    const absl::string_view character = rest.substr(0, CharacterBytes(rest));
    const uint32_t point = character.size() == 1 ? 0 : CodePoint(character);
    if (IsHidden(point)) {
      absl::StrAppendFormat(&visible, "\\u{%04x}", point);
    } else {
      absl::StrAppend(&visible, character);
    }
    rest.remove_prefix(character.size());
  }
  return visible;
}

std::string Printable(absl::string_view text) {
  std::string printable = Visible(text);
  std::replace_if(
      printable.begin(), printable.end(),
      [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); }, ' ');
  return printable;
}

std::string Quoted(absl::string_view text) {
  constexpr size_t kMaxBytes = 60;
  return absl::StrCat("'", Visible(Shortened(text, kMaxBytes)), "'");
}

}  // namespace stowage
