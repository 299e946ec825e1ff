#include "server/server_options.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/net/allowed_hosts.h"
#include "server/observe/log.h"
#include "solver/base/address.h"
#include "solver/base/cores.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

constexpr double kDaySeconds = 86400;

// Payload of an error: the option that it is about, "--grace".
constexpr const char* kOptionPayload = "stowage.option";

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

// Options whose text is parsed once the command line as a whole is valid.
struct TextOptions {
  std::string config;
  std::string max_message = "16MiB";
  std::string solve_memory = "4GiB";
  std::string request_memory = "512MiB";
  std::string all_solves_memory;  // empty: twice solve_memory
  std::string max_solve_time = "60s";
  std::string solve_turn = "1s";
  std::string shared_cache;
  std::string shared_cache_timeout = "5ms";
  std::string warm_up;
  std::string warm_up_time = "60s";
  std::string cache_memory = "256MiB";
  std::string cache_disk = "1GiB";
  std::string lame_duck = "5s";
  std::string grace = "30s";
  std::vector<std::string> trusted_proxies;
};

// Where systemd, or else the XDG base directories, put the cache; empty: the environment names
// neither, as for a service without a home directory.
std::string DefaultCacheDir() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  if (std::string state = variable("STATE_DIRECTORY"); !state.empty()) return state;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/stowage";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/stowage";
}

// One function for each group of --help, in the order in which it shows them.
void AddNetwork(CLI::App& app, ServerOptions* options, TextOptions* texts) {
  app.add_option("--listen", options->listen, "host:port (port 0: any free one) or unix:PATH")
      ->capture_default_str()
      ->type_name("ADDRESS")
      ->group("Network");
  app.add_flag("--reuse-port", options->reuse_port,
               "a new server of the same user, with this flag, too, may listen on --listen and "
               "--http beside this one, which leaves them to it on SIGTERM")
      ->group("Network");
  app.add_option(
         "--host-connections", options->host_connections,
         "connections of one host at a time, an IPv4 address or an IPv6 network of 64 bits, and "
         "new ones within ten seconds (at least 1,000); 0: no limit; a Unix socket has none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N")
      ->group("Network");
  app.add_option("--max-message", texts->max_message, "largest request that is read; e.g. 16MiB")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group("Network");
}

void AddSecurity(CLI::App& app, SecurityOptions* options) {
  const auto add = [&app](const char* name, std::string& path, const char* help) {
    app.add_option(name, path, help)->type_name("FILE")->group("Security");
  };
  add("--tls-cert", options->tls.certificate,
      "certificate chain, PEM; read again when it changes; default: connections are not encrypted");
  add("--tls-key", options->tls.key, "its key, PEM, without a passphrase");
  add("--tls-client-ca", options->tls.client_authorities,
      "callers must show a certificate that an authority in this PEM file signed");
  add("--token-file", options->token_file,
      "callers must send a bearer token of this file, a line each: NAME TOKEN; read again when it "
      "changes; default: no token is required");
  add("--operator-token-file", options->operator_token_file,
      "serves stowage.v1.Operator to callers with a bearer token of this "
      "file; default: it is not served");
  app.add_flag("--http-tls", options->http_tls,
               "encrypt connections to --http, too, with the same certificate; callers need none")
      ->group("Security");
  add("--http-token-file", options->http_token_file,
      "/metrics needs a bearer token of this file, in the format of --token-file; read again when "
      "it changes; default: everybody who can connect reads it");
}

void AddSolves(CLI::App& app, ServerOptions* options, TextOptions* texts) {
  EngineOptions& engine = options->engine;
  app.add_option("--threads", engine.threads, "solves that run at once; default: one a core")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->group("Solves");
  app.add_option("--short-threads", engine.short_threads,
                 "further solver threads, for solves that are expected to take milliseconds")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024))
      ->type_name("N")
      ->group("Solves");
  app.add_option("--queue-length", engine.queue_length, "requests that wait beyond those")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N")
      ->group("Solves");
  app.add_option("--solve-memory", texts->solve_memory,
                 "most memory that one solve may take; e.g. 4GiB")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group("Solves");
  app.add_option("--all-solves-memory", texts->all_solves_memory,
                 "most memory of all solves that run at once; default: twice --solve-memory")
      ->type_name("SIZE")
      ->group("Solves");
  app.add_option("--request-memory", texts->request_memory,
                 "most memory of requests in flight, of which one client may hold half; raise it "
                 "for jobs of many ranks with long chains")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group("Solves");
  app.add_option("--max-solve-time", texts->max_solve_time,
                 "longest time that one solve may run; then its best schedule so far is the answer")
      ->capture_default_str()
      ->type_name("DURATION")
      ->group("Solves");
  app.add_option("--solve-turn", texts->solve_turn,
                 "time after which a running solve no longer keeps other clients waiting: as many "
                 "more solves may run beside those that take longer")
      ->capture_default_str()
      ->type_name("DURATION")
      ->group("Solves");
  app.add_option("--max-stages", options->limits.stages, "longest chain that is accepted")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxStages))
      ->type_name("N")
      ->group("Solves");
  app.add_option("--max-slots", options->limits.memory_slots,
                 "most memory slots that a request may set; default: what --solve-memory allows")
      ->check(CLI::Range(int64_t{1}, kMaxMemorySlots))
      ->type_name("N")
      ->group("Solves");
}

// A client is a token's name, else the name in its certificate, else a host.
void AddClients(CLI::App& app, ServerOptions* options, TextOptions* texts) {
  app.add_option("--client-limit", options->engine.client_limit,
                 "solves of one client that wait or run; a client is a token's name, else the name "
                 "in a certificate, else a host")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N")
      ->group("Clients");
  app.add_option("--client-rate", options->client_calls_per_second,
                 "calls a second of one client, of which a request counts as one more for every 16 "
                 "KiB or 200 stages; 0: no limit")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N")
      ->group("Clients");
  app.add_option("--client-log-rate", options->log.client_lines_per_second,
                 "log lines a second about calls of one client; 0: no limit")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N")
      ->group("Clients");
  app.add_option("--client-cache-share", options->client_cache_share,
                 "share of the cache, 0 to 1, beyond which a client's answers replace its own")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("SHARE")
      ->group("Clients");
  app.add_option("--trusted-proxy", texts->trusted_proxies,
                 "address or range of proxies whose x-forwarded-for says which host calls, as in "
                 "10.0.0.7; unix: those on the Unix socket; may be repeated; default: none")
      ->delimiter(',')
      ->type_name("RANGE")
      ->group("Clients");
}

void AddCache(CLI::App& app, ServerOptions* options, TextOptions* texts) {
  app.add_option("--cache-memory", texts->cache_memory,
                 "most memory of cached answers; 0: no cache in memory")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group("Cache");
  app.add_option("--cache-dir", options->cache_dir,
                 "directory of answers that survive restarts, of this server alone; none: no cache "
                 "on disk; default: $STATE_DIRECTORY, or stowage in the user's cache directory")
      ->type_name("DIR")
      ->group("Cache");
  app.add_option("--cache-disk", texts->cache_disk, "most disk space of cached answers")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group("Cache");
  app.add_option("--shared-cache", texts->shared_cache,
                 "Redis or Redis Cluster of answers that several servers share: "
                 "redis://HOST:PORT,HOST:PORT, or rediss:// for TLS; default: none")
      ->type_name("URL")
      ->group("Cache");
  app.add_option("--shared-cache-timeout", texts->shared_cache_timeout,
                 "longest wait for an answer there; then it is solved here")
      ->capture_default_str()
      ->type_name("DURATION")
      ->group("Cache");
  app.add_option("--shared-cache-user-file", options->shared_cache_login.user_file,
                 "its password, or user and password, in one line; read for each connection")
      ->type_name("FILE")
      ->group("Cache");
  app.add_option("--shared-cache-ca", options->shared_cache_login.authorities,
                 "authorities of its certificates, PEM, with rediss://; default: the system's")
      ->type_name("FILE")
      ->group("Cache");
  app.add_option("--warm-up", texts->warm_up,
                 "answers that are copied into --shared-cache before the server is ready: disk: "
                 "those of --cache-dir; or those of another Redis, redis://HOST:PORT; default: "
                 "none")
      ->type_name("SOURCE")
      ->group("Cache");
  app.add_option("--warm-up-time", texts->warm_up_time,
                 "time after which the server is ready though not all answers are copied")
      ->capture_default_str()
      ->type_name("DURATION")
      ->group("Cache");
}

void AddOperation(CLI::App& app, ServerOptions* options, TextOptions* texts) {
  app.add_option("--config", texts->config,
                 "file of options, a line each, as in: grace = \"60s\"; flags override it; read "
                 "again on SIGHUP; default: none")
      ->configurable(false)
      ->type_name("FILE")
      ->group("Operation");
  app.add_option("--http", options->http,
                 "host:port of /metrics, /livez and /readyz (port 0: any free one); none: no such "
                 "port")
      ->capture_default_str()
      ->type_name("ADDRESS")
      ->group("Operation");
  app.add_option("--http-host", options->http_hosts,
                 "name by which browsers and scrapers call --http where it needs neither a token "
                 "nor TLS, beside this machine's own, names without a dot and addresses; may be "
                 "repeated; default: none")
      ->delimiter(',')
      ->type_name("NAME")
      ->group("Operation");
  app.add_option("--lame-duck", texts->lame_duck,
                 "how long calls are answered after SIGTERM while health says NOT_SERVING, so that "
                 "balancers send new ones elsewhere; then the server drains; 0s: at once")
      ->capture_default_str()
      ->type_name("DURATION")
      ->group("Operation");
  app.add_option("--grace", texts->grace,
                 "how long running solves may take while the server drains; e.g. 30s")
      ->capture_default_str()
      ->type_name("DURATION")
      ->group("Operation");
  app.add_option("--access-log", options->log.hit_share,
                 "share of the memory cache hits that are logged, 0 to 1; other calls all are")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("SHARE")
      ->group("Operation");
  app.add_option("--log-level", options->log_level, "debug, info, warning or error")
      ->capture_default_str()
      ->type_name("LEVEL")
      ->group("Operation");
  app.add_option("--log-format", options->log_format,
                 "text: key=value; json: an object a line, with the same keys")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORMAT")
      ->group("Operation");
  app.add_option("--trace-collector", options->trace_collector,
                 "host:port of a collector that gets traces of calls, as OTLP over gRPC, not "
                 "encrypted; default: no call is traced")
      ->type_name("ADDRESS")
      ->group("Operation");
  app.add_option("--trace-ratio", options->trace_ratio,
                 "share of the calls that are traced, 0 to 1; a caller's traceparent decides for "
                 "its own call")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("SHARE")
      ->group("Operation");
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

// Checks the options and fills in those that are parsed from text.
absl::Status Complete(const TextOptions& texts, ServerOptions* options) {
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
  if (!options->trace_collector.empty()) {
    const absl::Status collector = CheckAddress(options->trace_collector);
    if (!collector.ok()) return Bad("--trace-collector", collector.message());
  }
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

// Names the file and the line in an error about one of the options that a file has set.
absl::Status WithPlace(const std::vector<SetByFile>& from_file, const absl::Status& error) {
  const absl::optional<absl::Cord> about = error.GetPayload(kOptionPayload);
  for (const SetByFile& option : from_file) {
    if (about == absl::StrCat("--", option.name)) return Prefixed(option.place, error);
  }
  return error;
}

}  // namespace

// CLI11 throws for errors, --help and --version; nothing of that leaves this function. Defaults
// that depend on the machine are set before parsing, so that an option replaces them.
absl::StatusOr<ParsedOptions> ParseServerOptions(int argc, char** argv,
                                                 const std::string& version) {
  ParsedOptions parsed;
  ServerOptions& options = parsed.options;
  options.engine.threads = UsableCores();
  options.engine.short_threads = 1;
  options.cache_dir = DefaultCacheDir();
  TextOptions texts;

  CLI::App app(
      "Stowage: fits a training job into GPU memory with the least time lost.\n"
      "Serves stowage.v1.Scheduler, health and reflection over gRPC.",
      "stowage-server");
  app.set_version_flag("--version", "stowage-server " + version);
  AddNetwork(app, &options, &texts);
  AddSecurity(app, &options.security);
  AddSolves(app, &options, &texts);
  AddClients(app, &options, &texts);
  AddCache(app, &options, &texts);
  AddOperation(app, &options, &texts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.text = app.help();
    return parsed;
  } catch (const CLI::CallForVersion&) {
    parsed.text = absl::StrCat("stowage-server ", version, "\n");
    return parsed;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(absl::StrCat(error.what(), "; see stowage-server --help"));
  }
  std::vector<SetByFile> from_file;
  if (app.count("--config") > 0) {
    options.config_file = texts.config;
    ASSIGN_OR_RETURN(from_file, ReadConfigFile(texts.config, app));
  }
  const absl::Status complete = Complete(texts, &options);
  if (!complete.ok()) return WithPlace(from_file, complete);
  parsed.texts = OptionTexts(app);
  return parsed;
}

}  // namespace stowage
