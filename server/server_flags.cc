#include "server/server_flags.h"

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"

namespace stowage {
namespace {

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
  app.add_option("--trace-collector", texts->trace_collector,
                 "host:port of a collector that gets traces of calls, as OTLP over gRPC, or "
                 "https://host:port for TLS; default: no call is traced")
      ->type_name("ADDRESS")
      ->group("Operation");
  app.add_option("--trace-collector-ca", texts->trace_collector_authorities,
                 "authorities of its certificate, PEM, with https://; read at the start; default: "
                 "the system's")
      ->type_name("FILE")
      ->group("Operation");
  app.add_option("--trace-ratio", options->trace_ratio,
                 "share of the calls that are traced, 0 to 1; a caller's traceparent decides for "
                 "its own call")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("SHARE")
      ->group("Operation");
}

}  // namespace

void AddServerFlags(CLI::App& app, ServerOptions* options, TextOptions* texts) {
  AddNetwork(app, options, texts);
  AddSecurity(app, &options->security);
  AddSolves(app, options, texts);
  AddClients(app, options, texts);
  AddCache(app, options, texts);
  AddOperation(app, options, texts);
}

}  // namespace stowage
