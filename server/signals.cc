#include "server/signals.h"

#include <malloc.h>

#include <ctime>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "server/observe/log.h"
#include "server/observe/systemd.h"
#include "server/parse_options.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Returns freed memory to the system every few seconds: the C library would keep what large
// requests took.
int WaitForSignal(const sigset_t& signals) {
  constexpr timespec kBetween{.tv_sec = 5, .tv_nsec = 0};
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &kBetween);
    if (signal > 0) return signal;
    malloc_trim(0);
  }
}

std::string JoinedOrNone(const std::vector<std::string>& changes) {
  return changes.empty() ? "none" : absl::StrJoin(changes, ", ");
}

absl::StatusOr<ConfigChanges> ReadConfiguration(const CommandLine& line, Server* server) {
  ASSIGN_OR_RETURN(const ParsedOptions parsed,
                   ParseServerOptions(line.argc, line.argv, line.version));
  return server->Apply(parsed);
}

void Reload(const CommandLine& line, Server* server) {
  NotifyReloading();
  const absl::StatusOr<ConfigChanges> changes = ReadConfiguration(line, server);
  if (changes.ok()) {
    server->ReadCredentials();
    server->LogWarnings();
    LogAlways(changes->after_restart.empty() ? LogLevel::kInfo : LogLevel::kWarning, "reloaded",
              {{"changed", JoinedOrNone(changes->applied)},
               {"restart_needed", JoinedOrNone(changes->after_restart)}});
  } else {
    Log(LogLevel::kError, "reload_failed",
        {{"message", std::string(changes.status().message())},
         {"remedy", "put it right and send SIGHUP again; nothing has changed"}});
  }
  NotifyReady(server->address());
}

}  // namespace

sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int ReloadUntilStopped(const CommandLine& line, const sigset_t& signals, Server* server) {
  for (;;) {
    const int signal = WaitForSignal(signals);
    if (signal != SIGHUP) return signal;
    Reload(line, server);
  }
}

}  // namespace stowage
