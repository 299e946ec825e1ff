// Parsing and formatting of sizes, times and rates in human-readable form: "4GiB", "12GB/s",
// "10us", "3.2 ms". KB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB powers of 1024. Pure,
// thread-safe.
#ifndef STOWAGE_SOLVER_BASE_UNITS_H_
#define STOWAGE_SOLVER_BASE_UNITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stowage {

// Bytes from "4GiB", "1.5 GB", "1000" (no unit: bytes). Whole numbers are exact; fractions are
// rounded to the nearest byte.
// Errors: INVALID_ARGUMENT for other text and for values that are negative, not finite or 2^62 and
// above. The message lists the accepted forms.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// Bytes per second from "12GB/s", "800MiB/s" or a plain number of bytes per second.
// Errors: INVALID_ARGUMENT.
absl::StatusOr<double> ParseBytesPerSecond(absl::string_view text);

// Seconds from "10us", "3ms", "2s", "5ns" or a plain number of seconds.
// Errors: INVALID_ARGUMENT.
absl::StatusOr<double> ParseSeconds(absl::string_view text);

std::string FormatBytes(int64_t bytes);               // "9.76 GiB", "512 B"
std::string FormatSeconds(double seconds);            // "417.1 ms", "2.50 s", "0 s"
std::string FormatBytesPerSecond(double per_second);  // "12.0 GB/s"
std::string FormatPercent(double fraction);           // 0.156 -> "15.6 %"

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_UNITS_H_
