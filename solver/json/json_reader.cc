#include "solver/json/json_reader.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxViolations = 100;
constexpr size_t kMaxShown = 60;
constexpr size_t kMaxPath = 300;

std::string Text(const JsonPath& path) {
  const std::string before = path.parent != nullptr ? Text(*path.parent) : "";
  if (path.index.has_value()) return absl::StrCat(before, "[", *path.index, "]");
  return before.empty() ? std::string(path.field) : absl::StrCat(before, ".", path.field);
}

// A value in an error.
std::string Described(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  std::string text = value.dump();
  if (text.size() <= kMaxShown) return text;
  return absl::StrCat("a ", value.is_string() ? "string" : "number", " of ", text.size(), " bytes");
}

bool HasCapital(const std::string& name) {
  return std::any_of(name.begin(), name.end(), [](char c) { return absl::ascii_isupper(c); });
}

std::string InCamelCase(absl::string_view name) {
  std::string camel;
  bool is_capital = false;
  for (const char c : name) {
    if (c != '_') camel.push_back(is_capital ? absl::ascii_toupper(c) : c);
    is_capital = c == '_';
  }
  return camel;
}

bool IsWholeNumber(const std::string& text) {
  const size_t sign = text.starts_with("-") ? 1 : 0;
  return text.size() > sign &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(sign), text.end(),
                     [](char c) { return absl::ascii_isdigit(c); });
}

}  // namespace

JsonReader::~JsonReader() {
  if (seen_ <= kMaxViolations) return;
  violations_.push_back(
      {"request", absl::StrCat("has ", seen_ - kMaxViolations, " more fields that are wrong")});
}

void JsonReader::Add(const JsonPath& path, std::string problem) {
  if (seen_++ < kMaxViolations) {
    violations_.push_back({ValidUtf8(Shortened(Text(path), kMaxPath)), std::move(problem)});
  }
}

void JsonReader::Refuse(const JsonPath& path, const Json& value, absl::string_view wanted) {
  Add(path, absl::StrCat(Described(value), " is not ", wanted));
}

void JsonReader::Read(const JsonPath& path, const Json& value, std::string* to) {
  if (!value.is_string()) return Refuse(path, value, "a string");
  *to = value.get_ref<const std::string&>();
}

void JsonReader::Read(const JsonPath& path, const Json& value, bool* to) {
  if (!value.is_boolean()) return Refuse(path, value, "true or false");
  *to = value.get<bool>();
}

void JsonReader::Read(const JsonPath& path, const Json& value, double* to) {
  if (value.is_number()) {
    *to = value.get<double>();
    return;
  }
  double number = 0;
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  // Abseil's function skips white space and reads hexadecimal digits.
  if (absl::StripAsciiWhitespace(text) != text ||
      absl::StrContains(absl::AsciiStrToLower(text), "x") || !absl::SimpleAtod(text, &number)) {
    return Refuse(path, value, "a number");
  }
  *to = number;
}

std::optional<int64_t> JsonReader::WholeNumber(const Json& value, int64_t least, int64_t most) {
  int64_t number = 0;
  if (value.is_number_float()) {
    const double real = value.get<double>();
    // Both ends of int64_t are doubles: -2^63, and 2^63, which is too large.
    if (!(real >= -0x1p63 && real < 0x1p63) || std::trunc(real) != real) return std::nullopt;
    number = static_cast<int64_t>(real);
  } else if (value.is_number_unsigned()) {
    const auto whole = value.get<uint64_t>();
    if (whole > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    number = static_cast<int64_t>(whole);
  } else if (value.is_number_integer()) {
    number = value.get<int64_t>();
  } else if (!value.is_string() || !IsWholeNumber(value.get_ref<const std::string&>()) ||
             !absl::SimpleAtoi(value.get_ref<const std::string&>(), &number)) {
    return std::nullopt;
  }
  if (number < least || number > most) return std::nullopt;
  return number;
}

void JsonReader::Read(const JsonPath& path, const Json& value, int64_t* to) {
  using Limits = std::numeric_limits<int64_t>;
  const std::optional<int64_t> number = WholeNumber(value, Limits::min(), Limits::max());
  if (!number.has_value()) {
    return Refuse(path, value, "a whole number from -2^63 to below 2^63");
  }
  *to = *number;
}

void JsonReader::Read(const JsonPath& path, const Json& value, int* to) {
  using Limits = std::numeric_limits<int>;
  const std::optional<int64_t> number = WholeNumber(value, Limits::min(), Limits::max());
  if (!number.has_value()) {
    return Refuse(path, value, "a whole number from -2^31 to below 2^31");
  }
  *to = static_cast<int>(*number);
}

void JsonReader::Read(const JsonPath& path, const Json& value, size_t* to) {
  const auto number = WholeNumber(value, 0, std::numeric_limits<int64_t>::max());
  if (!number.has_value()) return Refuse(path, value, "a whole number from 0 to below 2^63");
  *to = static_cast<size_t>(*number);
}

JsonReader::Object::Object(JsonReader& reader, const JsonPath& path, const Json& object)
    : reader_(reader), path_(path), object_(object) {
  for (const auto& [name, value] : object_.items()) has_capitals_ |= HasCapital(name);
}

const Json* JsonReader::Object::Find(absl::string_view name) {
  names_.push_back(name);
  auto found = object_.find(name);
  if (has_capitals_) {
    const auto other = object_.find(InCamelCase(name));
    if (other != object_.end() && other != found) {
      if (found != object_.end()) reader_.Add(At(name), "is given twice, in two spellings");
      found = other;
    }
  }
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void JsonReader::Object::RefuseMissing(absl::string_view name, absl::string_view example) {
  reader_.Add(At(name), absl::StrCat("is missing; set e.g. ", example));
}

void JsonReader::Object::RefuseUnknown() {
  for (const auto& [name, value] : object_.items()) {
    const bool is_known =
        std::any_of(names_.begin(), names_.end(), [&name = name, this](absl::string_view known) {
          return known == name || (has_capitals_ && InCamelCase(known) == name);
        });
    if (!is_known) reader_.Add(At(name), "unknown field");
  }
}

}  // namespace stowage
