// The flags of the command line, in the groups of --help.
#ifndef STOWAGE_SERVER_SERVER_FLAGS_H_
#define STOWAGE_SERVER_SERVER_FLAGS_H_

#include <string>
#include <vector>

#include "server/server_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stowage {

// Options whose text is parsed once the command line as a whole is valid (option_checks.h).
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
  std::string trace_collector;
  std::string trace_collector_authorities;
  std::vector<std::string> trusted_proxies;
};

// Adds all flags to `app`, whose parsing then writes to both, which must outlive it.
void AddServerFlags(CLI::App& app, ServerOptions* options, TextOptions* texts);

}  // namespace stowage

#endif  // STOWAGE_SERVER_SERVER_FLAGS_H_
