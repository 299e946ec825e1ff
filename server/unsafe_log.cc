#include "server/unsafe_log.h"

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/observe/log.h"
#include "solver/base/address.h"

namespace stowage {

std::vector<SecurityWarning> UnsafeLog::Warnings() const {
  std::vector<SecurityWarning> warnings = security_.Warnings();
  const SecurityOptions& security = options_.security;
  if (!IsLocal(options_.listen)) {
    if (security.tls.certificate.empty()) {
      warnings.push_back({options_.listen,
                          "requests, answers and tokens cross the network in clear",
                          "set --tls-cert and --tls-key, or listen on 127.0.0.1"});
    }
    if (security.token_file.empty() && security.tls.client_authorities.empty()) {
      warnings.push_back({options_.listen, "everybody who reaches the address is served",
                          "set --token-file or --tls-client-ca, or listen on 127.0.0.1"});
    }
  }
  if (!options_.http.empty() && !IsLocal(options_.http) && security.http_token_file.empty()) {
    warnings.push_back({options_.http,
                        "everybody who reaches it reads metrics, options and clients' names",
                        "set --http-token-file, or keep it inside a trusted network"});
  }
  const TraceCollectorOptions& collector = options_.trace_collector;
  if (!collector.address.empty() && !collector.has_tls && !IsLocal(collector.address)) {
    warnings.push_back({collector.address,
                        "traces, with clients' names, cross the network in clear",
                        "set --trace-collector to https://HOST:PORT, or to one on this machine"});
  }
  const std::shared_ptr<const TrustedProxies> proxies = proxies_.Get();
  for (const std::string& range : proxies->wide_ranges()) {
    warnings.push_back(
        {absl::StrCat("--trusted-proxy ", range),
         "each of its hosts may pass for any client, and has no limit of connections",
         "name the addresses of the proxies alone"});
  }
  const auto add = [&warnings](const std::optional<SecurityWarning>& warning) {
    if (warning.has_value()) warnings.push_back(*warning);
  };
  struct stat file {};
  if (!options_.cache_dir.empty() && stat(options_.cache_dir.c_str(), &file) == 0) {
    add(WarnOfWriters(options_.cache_dir, file, "the cached answers"));
  }
  if (!options_.config_file.empty() && stat(options_.config_file.c_str(), &file) == 0) {
    add(WarnOfWriters(options_.config_file, file, "the options of the server"));
    add(WarnOfFolder(options_.config_file, "the options of the server"));
  }
  return warnings;
}

void UnsafeLog::LogNew() {
  std::vector<SecurityWarning> warnings = Warnings();
  MutexLock lock(mutex_);
  for (const SecurityWarning& warning : warnings) {
    if (absl::c_linear_search(logged_, warning)) continue;
    Log(LogLevel::kWarning, "unsafe",
        {{"subject", warning.subject}, {"problem", warning.problem}, {"remedy", warning.remedy}});
  }
  logged_ = std::move(warnings);
}

}  // namespace stowage
