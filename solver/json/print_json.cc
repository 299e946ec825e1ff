#include "solver/json/print_json.h"

#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "solver/base/quote.h"
#include "solver/json/json_writer.h"

namespace stowage {
namespace {

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

template <typename Message>
std::string Text(const Message& message) {
  JsonObject object;
  VisitFields(object, message);
  return Printed(object.Take(), 0) + "\n";
}

}  // namespace

std::string ToJsonString(absl::string_view text) {
  std::string json = "\"";
  for (const char c : ValidUtf8(text)) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&json, "\\", std::string(1, c));
    } else if (c == '\b') {
      json += "\\b";
    } else if (c == '\f') {
      json += "\\f";
    } else if (c == '\n') {
      json += "\\n";
    } else if (c == '\r') {
      json += "\\r";
    } else if (c == '\t') {
      json += "\\t";
    } else if ((c >= 0 && c < ' ') || c == '<' || c == '>' || c == '\x7f') {
      absl::StrAppendFormat(&json, "\\u%04x", static_cast<unsigned>(c));
    } else {
      json += c;
    }
  }
  return json + "\"";
}

std::string ToJson(const Chain& chain) { return Text(chain); }

std::string ToJson(const Platform& platform) { return Text(platform); }

}  // namespace stowage
