#include "solver/base/address.h"

#include <arpa/inet.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

bool IsUnixSocket(absl::string_view address) {
  return absl::ConsumePrefix(&address, "unix:") && !address.empty();
}

bool IsHostAndPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return false;
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535) return false;
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) return absl::ConsumeSuffix(&host, "]") && !host.empty();
  return !host.empty() && !absl::StrContains(host, ":");  // an IPv6 address stands in brackets
}

}  // namespace

absl::Status CheckAddress(absl::string_view address) {
  if (IsUnixSocket(address) || IsHostAndPort(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(address), " is not host:port with a port from 0 to 65535, [::1]:port or unix:PATH"));
}

bool IsLocal(absl::string_view address) {
  if (IsUnixSocket(address)) return true;
  const std::string host(address.substr(0, address.rfind(':')));
  in_addr ip{};
  return host == "localhost" || host == "[::1]" ||
         (inet_pton(AF_INET, host.c_str(), &ip) == 1 && ntohl(ip.s_addr) >> 24 == 127);
}

}  // namespace stowage
