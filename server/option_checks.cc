#include "server/option_checks.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/net/allowed_hosts.h"
#include "server/observe/log.h"
#include "server/security/tls.h"
#include "solver/base/address.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

constexpr double kDaySeconds = 86400;

absl::Status About(const char* option, absl::Status error) {
  error.SetPayload(kOptionPayload, absl::Cord(option));
  return error;
}

// "--grace: must be at most a day (86400s)".
absl::Status Bad(const char* option, absl::string_view problem) {
  return About(option, absl::InvalidArgumentError(absl::StrCat(option, ": ", problem)));
}

// Parses a size or a duration of `option` into `*value`.
template <typename Text, typename Parser, typename Value>
absl::Status Read(const char* option, const Text& text, Parser parse, Value* value) {
  const auto parsed = parse(text);
  if (!parsed.ok()) return Bad(option, parsed.status().message());
  *value = *parsed;
  return absl::OkStatus();
}

absl::Status CheckSecurity(const SecurityOptions& options) {
  const TlsFiles& tls = options.tls;
  if (tls.certificate.empty() != tls.key.empty()) {
    return About("--tls-cert",
                 absl::InvalidArgumentError("--tls-cert, --tls-key: give both, or neither"));
  }
  if (!tls.client_authorities.empty() && tls.certificate.empty()) {
    return Bad("--tls-client-ca", "needs --tls-cert and --tls-key");
  }
  if (options.http_tls && tls.certificate.empty()) {
    return Bad("--http-tls", "needs --tls-cert and --tls-key");
  }
  return absl::OkStatus();
}

// The limit of all solves follows that of one unless it is set, without overflow: together they
// must have room for the largest single solve.
absl::Status ReadSolveMemory(const TextOptions& texts, EngineOptions* engine) {
  RETURN_IF_ERROR(
      Read("--request-memory", texts.request_memory, ParseBytes, &engine->request_bytes));
  RETURN_IF_ERROR(Read("--solve-memory", texts.solve_memory, ParseBytes, &engine->solve_bytes));
  engine->all_solves_bytes = 2 * std::min(engine->solve_bytes, INT64_MAX / 2);
  if (!texts.all_solves_memory.empty()) {
    RETURN_IF_ERROR(Read("--all-solves-memory", texts.all_solves_memory, ParseBytes,
                         &engine->all_solves_bytes));
  }
  if (engine->all_solves_bytes >= engine->solve_bytes) return absl::OkStatus();
  return Bad("--all-solves-memory", "must be at least --solve-memory, which one solve may take");
}

absl::Status ReadLimit(const char* name, const std::string& text, double* seconds) {
  RETURN_IF_ERROR(Read(name, text, ParseSeconds, seconds));
  if (*seconds > 0 && *seconds <= kDaySeconds) return absl::OkStatus();
  return Bad(name, "must be above 0 and at most a day (86400s)");
}

// From 0.
absl::Status ReadWait(const char* name, const std::string& text, double* seconds) {
  RETURN_IF_ERROR(Read(name, text, ParseSeconds, seconds));
  if (*seconds <= kDaySeconds) return absl::OkStatus();
  return Bad(name, "must be at most a day (86400s)");
}

absl::Status ReadMaxMessage(const TextOptions& texts, int* max_message_bytes) {
  int64_t bytes = 0;
  RETURN_IF_ERROR(Read("--max-message", texts.max_message, ParseBytes, &bytes));
  if (bytes < 1024 || bytes > INT32_MAX) {
    return Bad("--max-message", "must be from 1KiB to below 2GiB");
  }
  *max_message_bytes = static_cast<int>(bytes);
  return absl::OkStatus();
}

// Its files are read once, so that a wrong one stops the start.
absl::Status ReadSharedCache(const TextOptions& texts, ServerOptions* options) {
  RedisLoginFiles& login = options->shared_cache_login;
  if (texts.shared_cache.empty()) {
    if (login.user_file.empty() && login.authorities.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--shared-cache-user-file, --shared-cache-ca: need --shared-cache");
  }
  RETURN_IF_ERROR(
      Read("--shared-cache", texts.shared_cache, ParseRedisUrl, &options->shared_cache));
  RETURN_IF_ERROR(ReadLimit("--shared-cache-timeout", texts.shared_cache_timeout,
                            &options->shared_cache_timeout_seconds));
  login.has_tls = options->shared_cache.has_tls;
  login.own = options->security.tls;
  if (!login.authorities.empty() && !login.has_tls) {
    return absl::InvalidArgumentError("--shared-cache-ca: needs a --shared-cache with rediss://");
  }
  const absl::Status files = ReadRedisLogin(login).status();
  return files.ok() ? files : Prefixed("--shared-cache", files);
}

// Another Redis gets the login of the shared cache. Requires: ReadSharedCache() has been called.
absl::Status ReadWarmUp(const TextOptions& texts, ServerOptions* options) {
  WarmUpOptions& warm_up = options->warm_up;
  RETURN_IF_ERROR(ReadLimit("--warm-up-time", texts.warm_up_time, &warm_up.max_seconds));
  if (texts.warm_up.empty()) return absl::OkStatus();
  if (options->shared_cache.seeds.empty()) return Bad("--warm-up", "needs --shared-cache");
  warm_up.from_disk = texts.warm_up == "disk";
  if (warm_up.from_disk) {
    return options->cache_dir.empty() ? Bad("--warm-up", "disk needs a --cache-dir")
                                      : absl::OkStatus();
  }
  RETURN_IF_ERROR(Read("--warm-up", texts.warm_up, ParseRedisUrl, &warm_up.from));
  if (warm_up.from.seeds == options->shared_cache.seeds) {
    return Bad("--warm-up", "is the --shared-cache itself; name the one that it replaces");
  }
  warm_up.login = options->shared_cache_login;
  warm_up.login.has_tls = warm_up.from.has_tls;
  return absl::OkStatus();
}

// "host:port", or "https://host:port" for TLS.
absl::Status ReadTraceCollector(const TextOptions& texts, TraceCollectorOptions* collector) {
  constexpr const char* kAuthorities = "--trace-collector-ca";
  absl::string_view address = texts.trace_collector;
  collector->has_tls = absl::ConsumePrefix(&address, "https://");
  collector->address = std::string(address);
  if (!texts.trace_collector.empty()) {
    const absl::Status valid = CheckAddress(collector->address);
    if (!valid.ok()) return Bad("--trace-collector", valid.message());
  }
  const std::string& file = texts.trace_collector_authorities;
  if (file.empty()) return absl::OkStatus();
  if (!collector->has_tls) return Bad(kAuthorities, "needs a --trace-collector with https://");
  absl::StatusOr<std::string> authorities = ReadAuthorities(file);
  if (!authorities.ok()) return About(kAuthorities, Prefixed(kAuthorities, authorities.status()));
  collector->authorities = *std::move(authorities);
  return absl::OkStatus();
}

// The system would take one port for two servers', and give each a part of the connections.
absl::Status CheckReusePort(const ServerOptions& options) {
  if (!options.reuse_port) return absl::OkStatus();
  if (absl::StartsWith(options.listen, "unix:")) {
    return Bad("--reuse-port", "needs a --listen with host:port: a Unix socket is one server's");
  }
  const std::string port = options.listen.substr(options.listen.rfind(':'));
  if (port == ":0" || !absl::EndsWith(options.http, port)) return absl::OkStatus();
  return Bad("--reuse-port", "needs a --http with another port than that of --listen");
}

}  // namespace

absl::Status CompleteOptions(const TextOptions& texts, ServerOptions* options) {
  const absl::Status address = CheckAddress(options->listen);
  if (!address.ok()) return Bad("--listen", address.message());
  RETURN_IF_ERROR(CheckSecurity(options->security));
  RETURN_IF_ERROR(ReadSolveMemory(texts, &options->engine));
  RETURN_IF_ERROR(
      ReadLimit("--max-solve-time", texts.max_solve_time, &options->engine.max_solve_seconds));
  RETURN_IF_ERROR(ReadLimit("--solve-turn", texts.solve_turn, &options->engine.turn_seconds));
  RETURN_IF_ERROR(Read("--cache-memory", texts.cache_memory, ParseBytes, &options->cache_bytes));
  RETURN_IF_ERROR(Read("--cache-disk", texts.cache_disk, ParseBytes, &options->disk_bytes));
  if (options->cache_dir == "none") options->cache_dir.clear();
  RETURN_IF_ERROR(ReadSharedCache(texts, options));
  RETURN_IF_ERROR(ReadWarmUp(texts, options));
  if (options->http == "none") options->http.clear();
  if (!options->http.empty()) {
    const absl::Status http = CheckAddress(options->http);
    if (!http.ok()) return Bad("--http", http.message());
  }
  RETURN_IF_ERROR(CheckReusePort(*options));
  RETURN_IF_ERROR(ReadTraceCollector(texts, &options->trace_collector));
  for (std::string& host : options->http_hosts) {
    const std::string name = HostIn(host);
    if (name.empty() || name.size() != host.size()) {
      return Bad("--http-host",
                 absl::StrCat("\"", host, "\": must be a name without a port, such as ",
                              "metrics.example"));
    }
    host = name;
  }
  RETURN_IF_ERROR(ReadWait("--lame-duck", texts.lame_duck, &options->lame_duck_seconds));
  RETURN_IF_ERROR(ReadWait("--grace", texts.grace, &options->grace_seconds));
  RETURN_IF_ERROR(Read("--trusted-proxy", texts.trusted_proxies, TrustedProxies::Parse,
                       &options->trusted_proxies));
  RETURN_IF_ERROR(ReadMaxMessage(texts, &options->max_message_bytes));
  const absl::Status level = CheckLogLevel(options->log_level);
  return level.ok() ? level : Bad("--log-level", level.message());
}

}  // namespace stowage
