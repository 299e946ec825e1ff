#include "client/lib/rpc/grpc_text.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/match.h"

namespace stowage {

GrpcText GrpcText::Read(absl::string_view text) {
  const auto contains_any = [text](std::initializer_list<const char*> parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [text](const char* part) { return absl::StrContains(text, part); });
  };
  return {
      .tls = contains_any({"SSL"}),
      .broken = contains_any({"Socket closed", "Connection reset", "Broken pipe", "GOAWAY",
                              "Connection timed out", "eepalive", "Stream removed",
                              "RST_STREAM with error code 2"}),
      .never_connected = absl::StartsWith(text, "failed to connect to all addresses") ||
                         absl::StartsWith(text, "DNS resolution failed"),
      .closed = contains_any({"Socket closed", "reset by peer"}),
      .key_does_not_fit = contains_any({"empty address list"}),
      .too_large = contains_any({"message larger than max"}),
  };
}

}  // namespace stowage
