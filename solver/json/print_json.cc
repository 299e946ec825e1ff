#include "solver/json/print_json.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "solver/base/quote.h"
#include "solver/json/json_writer.h"

namespace stowage {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

// Of a text that is valid UTF-8 and not empty.
Character FirstOf(absl::string_view text) {
  const auto at = [text](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t first = at(0);
  const size_t bytes = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  uint32_t code = bytes == 1 ? first : first & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (at(i) & 0x3F);
  return {code, bytes};
}

const char* ShortEscape(uint32_t code) {
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return nullptr;
  }
}

// What protobuf escapes, since HTML or JavaScript might read it, or nobody sees it.
bool IsEscaped(uint32_t code) {
  constexpr std::pair<uint32_t, uint32_t> kEscaped[] = {
      {0x00, 0x1F},       {'<', '<'},         {'>', '>'},       {0x7F, 0x9F},
      {0xAD, 0xAD},       {0x600, 0x603},     {0x6DD, 0x6DD},   {0x70F, 0x70F},
      {0x17B4, 0x17B5},   {0x200B, 0x200F},   {0x2028, 0x202E}, {0x2060, 0x2064},
      {0x206A, 0x206F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB}, {0x1D173, 0x1D17A},
      {0xE0001, 0xE0001}, {0xE0020, 0xE007F},
  };
  return std::any_of(std::begin(kEscaped), std::end(kEscaped), [code](const auto& range) {
    return range.first <= code && code <= range.second;
  });
}

// "\u200b", and two of them beyond 16 bits.
void AppendEscape(uint32_t code, std::string* json) {
  if (code < 0x10000) {
    absl::StrAppendFormat(json, "\\u%04x", code);
    return;
  }
  code -= 0x10000;
  absl::StrAppendFormat(json, "\\u%04x\\u%04x", 0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF));
}

// 15 digits where they read back as the same number, else 17.
std::string Digits(double value) {
  std::string digits = absl::StrFormat("%.15g", value);
  double read = 0;
  return absl::SimpleAtod(digits, &read) && read == value ? digits
                                                          : absl::StrFormat("%.17g", value);
}

std::string Line(size_t level) { return absl::StrCat("\n", std::string(level, ' ')); }

// What is in an object or an array is one space further to the right, a line each.
std::string Printed(const OrderedJson& json, size_t level) {
  if (json.is_string()) return ToJsonString(json.get_ref<const std::string&>());
  if (json.is_number_float()) return Digits(json.get<double>());
  if (!json.is_structured()) return json.dump();
  const char* const brackets = json.is_object() ? "{}" : "[]";
  if (json.empty()) return brackets;
  std::string text(1, brackets[0]);
  for (auto member = json.begin(); member != json.end(); ++member) {
    absl::StrAppend(&text, member == json.begin() ? "" : ",", Line(level + 1));
    if (json.is_object()) absl::StrAppend(&text, ToJsonString(member.key()), ": ");
    text += Printed(*member, level + 1);
  }
  return absl::StrCat(text, Line(level), std::string(1, brackets[1]));
}

}  // namespace

std::string ToJsonString(absl::string_view text) {
  const std::string valid = ValidUtf8(text);
  std::string json = "\"";
  for (absl::string_view rest = valid; !rest.empty();) {
    const Character next = FirstOf(rest);
    const char* const short_form = ShortEscape(next.code);
    if (short_form != nullptr) {
      json += short_form;
    } else if (IsEscaped(next.code)) {
      AppendEscape(next.code, &json);
    } else {
      absl::StrAppend(&json, rest.substr(0, next.bytes));
    }
    rest.remove_prefix(next.bytes);
  }
  return json + "\"";
}

std::string PrintJson(const OrderedJson& json) { return Printed(json, 0) + "\n"; }

std::string ToJson(const Chain& chain) {
  JsonObject object;
  VisitFields(object, chain);
  return PrintJson(object.Take());
}

}  // namespace stowage
