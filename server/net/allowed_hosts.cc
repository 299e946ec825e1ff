#include "server/net/allowed_hosts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

constexpr size_t kLongestName = 253;  // that DNS allows

bool IsNumericAddress(const std::string& host) {
  in6_addr ignored;
  return inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

}  // namespace

std::string HostIn(absl::string_view host_and_port) {
  const bool has_brackets = !host_and_port.empty() && host_and_port.front() == '[';
  if (has_brackets) host_and_port.remove_prefix(1);
  absl::string_view host = host_and_port.substr(0, host_and_port.find(has_brackets ? ']' : ':'));
  if (!host.empty() && host.back() == '.') host.remove_suffix(1);
  return absl::AsciiStrToLower(host);
}

std::string OwnHostName() {
  char name[kLongestName + 2] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

AllowedHosts::AllowedHosts(const std::vector<std::string>& names) {
  for (const std::string& name : names) names_.insert(HostIn(name));
  names_.erase("");
}

absl::Status AllowedHosts::Check(absl::string_view host) const {
  if (host.empty()) return absl::OkStatus();
  const std::string name = HostIn(host);
  const bool is_local = !name.empty() && !absl::StrContains(name, '.');
  if (is_local || names_.contains(name) || IsNumericAddress(name)) return absl::OkStatus();
  const std::string shown = absl::CHexEscape(name.substr(0, kLongestName));
  return absl::PermissionDeniedError(absl::StrCat(
      "host: this server is not known as \"", shown, "\"; use its address, or start it with ",
      "--http-host ", shown, " or with --http-token-file"));
}

}  // namespace stowage
