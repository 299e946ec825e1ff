// The signals of the server: SIGHUP has it read its configuration again, SIGTERM and SIGINT end it.
#ifndef STOWAGE_SERVER_SIGNALS_H_
#define STOWAGE_SERVER_SIGNALS_H_

#include <csignal>

#include "server/server.h"

namespace stowage {

// Blocks them before any thread starts, so that ReloadUntilStopped() receives them.
sigset_t BlockSignals();

// What main() parsed, and parses again.
struct CommandLine {
  int argc;
  char** argv;
  const char* version;
};

// Reads configuration, certificates and tokens again at each SIGHUP, and logs what has changed. A
// configuration that is invalid, or whose shared cache does not answer, changes nothing. Returns
// the signal that ends the server. Meanwhile it returns freed memory to the system every few
// seconds.
int ReloadUntilStopped(const CommandLine& line, const sigset_t& signals, Server* server);

}  // namespace stowage

#endif  // STOWAGE_SERVER_SIGNALS_H_
