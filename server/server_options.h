// The options of the server: each with its unit and default.
#ifndef STOWAGE_SERVER_SERVER_OPTIONS_H_
#define STOWAGE_SERVER_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/engine/engine.h"
#include "server/observe/log.h"
#include "server/observe/span_exporter.h"
#include "server/rpc/callers/caller_address.h"
#include "server/rpc/calls/call.h"
#include "server/security/redis_login.h"
#include "server/security/security.h"

namespace stowage {

// Where answers come from that are copied into the shared cache before the server is ready.
struct WarmUpOptions {
  bool from_disk = false;  // from ServerOptions::cache_dir
  RedisUrl from;           // no seeds: from no Redis
  RedisLoginFiles login;   // to it
  double max_seconds = 60;
};

struct ServerOptions {
  std::string listen = "127.0.0.1:50051";    // host:port, port 0: any free one; or unix:PATH
  std::string http = "127.0.0.1:50052";      // host:port for operators; empty: none
  bool reuse_port = false;                   // both are shared with the server that replaces it
  std::vector<std::string> http_hosts;       // names for it, beside its own; HostIn() each
  int64_t cache_bytes = int64_t{256} << 20;  // of answers and responses in memory
  std::string cache_dir;                     // empty: no cache on disk
  int64_t disk_bytes = int64_t{1} << 30;     // of answers there
  int host_connections = 1024;               // as ListenerOptions::host_connections
  RedisUrl shared_cache;                     // no seeds: none
  RedisLoginFiles shared_cache_login;
  double shared_cache_timeout_seconds = 0.005;  // of a look-up there
  WarmUpOptions warm_up;
  SecurityOptions security;
  RequestLimits limits;
  EngineOptions engine;
  TrustedProxies trusted_proxies;
  double client_calls_per_second = 2000;  // of one client; 0: no limit
  double client_cache_share = 0.5;        // of the cache, in memory and on disk
  int max_message_bytes = 16 << 20;       // larger requests are refused
  double lame_duck_seconds = 5;           // of answering as NOT_SERVING, after SIGTERM
  double grace_seconds = 30;              // for running solves, after that
  std::string log_level = "info";
  std::string log_format = "text";  // or "json"
  std::string config_file;          // that these come from in part; empty: none
  LogObserver::Options log = {.client_lines_per_second = 20, .hit_share = 0.01};
  TraceCollectorOptions trace_collector;
  double trace_ratio = 0.01;  // of the calls whose callers do not say
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_SERVER_OPTIONS_H_
