#include "server/rpc/calls/trace_context.h"

#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"

namespace stowage {
namespace {

bool IsLowerHex(absl::string_view text) {
  return absl::c_all_of(text, [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
  });
}

// Of a digit that is one.
bool IsOdd(char hex) { return (hex <= '9' ? hex - '0' : hex - 'a' + 10) % 2 == 1; }

bool IsZero(absl::string_view text) {
  return absl::c_all_of(text, [](char c) { return c == '0'; });
}

}  // namespace

// Later versions begin with the same fields; "ff" is none.
std::optional<TraceParent> ParseTraceParent(absl::string_view traceparent) {
  constexpr size_t kBytes = 55;
  if (traceparent.size() < kBytes) return std::nullopt;
  const absl::string_view version = traceparent.substr(0, 2);
  const absl::string_view trace = traceparent.substr(3, 32);
  const absl::string_view parent = traceparent.substr(36, 16);
  const absl::string_view flags = traceparent.substr(53, 2);
  const bool has_dashes = traceparent[2] == '-' && traceparent[35] == '-' && traceparent[52] == '-';
  const bool has_end =
      traceparent.size() == kBytes || (version != "00" && traceparent[kBytes] == '-');
  const bool is_valid = has_dashes && has_end && IsLowerHex(version) && version != "ff" &&
                        IsLowerHex(trace) && !IsZero(trace) && IsLowerHex(parent) &&
                        !IsZero(parent) && IsLowerHex(flags);
  if (!is_valid) return std::nullopt;
  return TraceParent{.trace = trace, .parent = parent, .is_sampled = IsOdd(flags.back())};
}

}  // namespace stowage
