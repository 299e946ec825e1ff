#include "solver/base/units.h"

#include <array>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

struct Unit {
  const char* name;
  int64_t bytes;
};
constexpr std::array<Unit, 12> kByteUnits = {{{"B", 1},
                                              {"kB", 1000},
                                              {"KB", 1000},
                                              {"MB", 1000'000},
                                              {"GB", 1000'000'000},
                                              {"TB", 1000'000'000'000},
                                              {"PB", 1000'000'000'000'000},
                                              {"KiB", int64_t{1} << 10},
                                              {"MiB", int64_t{1} << 20},
                                              {"GiB", int64_t{1} << 30},
                                              {"TiB", int64_t{1} << 40},
                                              {"PiB", int64_t{1} << 50}}};
// The model's limit on every sum of sizes (kMaxTotalBytes).
constexpr int64_t kLargestSize = int64_t{1} << 62;

// Both borrow the text that was split.
struct NumberAndUnit {
  absl::string_view number;
  absl::string_view unit;
};

// Splits "1.5 GiB" into "1.5" and "GiB". An exponent ("1e9") belongs to the number.
NumberAndUnit Split(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  size_t end = 0;
  while (end < text.size() &&
         (absl::ascii_isdigit(text[end]) || absl::StrContains("+-.", text.substr(end, 1)) ||
          ((text[end] == 'e' || text[end] == 'E') && end + 1 < text.size() &&
           (absl::ascii_isdigit(text[end + 1]) || text[end + 1] == '-' || text[end + 1] == '+')))) {
    ++end;
  }
  return {text.substr(0, end), absl::StripAsciiWhitespace(text.substr(end))};
}

// The unit of that name, bytes for an empty one; null when there is none.
const Unit* FindByteUnit(absl::string_view name) {
  if (name.empty()) return kByteUnits.data();
  for (const Unit& unit : kByteUnits) {
    if (name == unit.name) return &unit;
  }
  return nullptr;
}

absl::Status BadValue(absl::string_view text, absl::string_view accepted) {
  return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " is not ", accepted));
}

// Parses a finite number >= 0. Returns false for anything else.
bool ParseAmount(absl::string_view text, double* value) {
  return absl::SimpleAtod(text, value) && std::isfinite(*value) && *value >= 0;
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  constexpr absl::string_view kAccepted =
      "a size below 2^62 bytes; write e.g. 4GiB, 1.5GB or a number of bytes (units: B kB MB GB TB "
      "PB KiB MiB GiB TiB PiB)";
  const NumberAndUnit parts = Split(text);
  const Unit* unit = FindByteUnit(parts.unit);
  if (unit == nullptr) return BadValue(text, kAccepted);
  // Whole numbers stay integers: a double is exact only up to 2^53.
  if (int64_t whole = 0; absl::SimpleAtoi(parts.number, &whole)) {
    int64_t bytes = 0;
    if (whole < 0 || __builtin_mul_overflow(whole, unit->bytes, &bytes) || bytes >= kLargestSize) {
      return BadValue(text, kAccepted);
    }
    return bytes;
  }
  double value = 0;
  if (!ParseAmount(parts.number, &value)) return BadValue(text, kAccepted);
  const double bytes = std::round(value * static_cast<double>(unit->bytes));
  if (bytes >= static_cast<double>(kLargestSize)) return BadValue(text, kAccepted);
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<double> ParseBytesPerSecond(absl::string_view text) {
  const NumberAndUnit parts = Split(text);
  absl::string_view name = parts.unit;
  const bool has_suffix = absl::ConsumeSuffix(&name, "/s");
  const Unit* unit = FindByteUnit(name);
  double value = 0;
  // "/s" belongs to a unit: "12GB" without it and "12/s" without a unit are both rejected.
  if (unit == nullptr || has_suffix == name.empty() || !ParseAmount(parts.number, &value)) {
    return BadValue(text, "a bandwidth; write e.g. 12GB/s, 800MiB/s or a number of bytes a second");
  }
  return value * static_cast<double>(unit->bytes);
}

absl::StatusOr<double> ParseSeconds(absl::string_view text) {
  const NumberAndUnit parts = Split(text);
  double scale = 0;
  if (parts.unit.empty() || parts.unit == "s") scale = 1;
  if (parts.unit == "ms") scale = 1e-3;
  if (parts.unit == "us") scale = 1e-6;
  if (parts.unit == "ns") scale = 1e-9;
  double value = 0;
  if (scale == 0 || !ParseAmount(parts.number, &value)) {
    return BadValue(text, "a duration; write e.g. 10us, 3ms, 2s or a number of seconds");
  }
  return value * scale;
}

std::string FormatBytes(int64_t bytes) {
  constexpr std::array<const char*, 7> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  size_t power = 0;
  auto value = static_cast<double>(bytes);
  // 1023.995 and up would print as "1024.00": the next unit reads better.
  for (; value >= 1023.995 && power + 1 < kNames.size(); ++power) value /= 1024;
  return absl::StrFormat("%.2f %s", value, kNames[power]);
}

std::string FormatSeconds(double seconds) {
  // Each threshold is where rounding to one decimal would carry into the next unit.
  if (seconds == 0) return "0 s";
  if (seconds < 0.99995e-6) return absl::StrFormat("%.1f ns", seconds * 1e9);
  if (seconds < 0.99995e-3) return absl::StrFormat("%.1f us", seconds * 1e6);
  if (seconds < 0.99995) return absl::StrFormat("%.1f ms", seconds * 1e3);
  return absl::StrFormat("%.3f s", seconds);
}

std::string FormatBytesPerSecond(double per_second) {
  constexpr std::array<const char*, 5> kNames = {"B/s", "KB/s", "MB/s", "GB/s", "TB/s"};
  size_t power = 0;
  for (; per_second >= 999.95 && power + 1 < kNames.size(); ++power) per_second /= 1000;
  return absl::StrFormat("%.1f %s", per_second, kNames[power]);
}

std::string FormatPercent(double fraction) { return absl::StrFormat("%.1f %%", fraction * 100); }

}  // namespace stowage
