#include "client/lib/rpc/proxy.h"

#include <initializer_list>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "solver/base/address.h"

namespace stowage {
namespace {

using Environment = absl::FunctionRef<const char*(const char* variable)>;

// The first variable that is set, though to nothing; null: none is.
const char* FirstSet(std::initializer_list<const char*> variables, Environment environment) {
  for (const char* variable : variables) {
    if (environment(variable) != nullptr) return variable;
  }
  return nullptr;
}

bool IsExcepted(absl::string_view host, Environment environment) {
  const char* const variable = FirstSet({"no_grpc_proxy", "no_proxy"}, environment);
  if (variable == nullptr) return false;
  const std::vector<absl::string_view> ends =
      absl::StrSplit(environment(variable), ',', absl::SkipEmpty());
  return absl::c_any_of(ends, [host](absl::string_view end) {
    return absl::EndsWithIgnoreCase(host, absl::StripAsciiWhitespace(end));
  });
}

}  // namespace

std::optional<Proxy> ProxyOf(const std::string& server, Environment environment) {
  if (IsLocal(server)) return std::nullopt;
  const char* const variable = FirstSet({"grpc_proxy", "https_proxy", "http_proxy"}, environment);
  if (variable == nullptr) return std::nullopt;
  absl::string_view address = environment(variable);
  if (!absl::ConsumePrefix(&address, "http://")) return std::nullopt;
  address = address.substr(0, address.find('/'));
  if (const size_t at = address.rfind('@'); at != absl::string_view::npos) {
    address.remove_prefix(at + 1);
  }
  absl::string_view host = absl::string_view(server).substr(0, server.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  if (address.empty() || IsExcepted(host, environment)) return std::nullopt;
  return Proxy{variable, std::string(address)};
}

}  // namespace stowage
