// stowage-server: parses options, serves until SIGTERM or SIGINT, drains, exits 0.
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "grpc/support/log.h"
#include "server/net/descriptors.h"
#include "server/observe/log.h"
#include "server/observe/systemd.h"
#include "server/security/handshake_log.h"
#include "server/server.h"
#include "server/server_options.h"

namespace stowage {
namespace {

// How long draining may take beyond the grace period: responses are sent, and writes to the disk
// cache end.
constexpr double kLastWritesSeconds = 10;

// Blocks signals before any thread starts, so that WaitForSignal() receives them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

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

// gRPC's messages, in the format of our log. Failures among them are also reported by our own code.
void LogFromGrpc(gpr_log_func_args* args) {
  HandshakeLog::Read(args->message);
  Log(LogLevel::kDebug, "grpc", {{"message", args->message}});
}

std::string TlsText(const TlsFiles& tls) {
  if (tls.certificate.empty()) return "none";
  return tls.client_authorities.empty() ? "server" : "mutual";
}

int Serve(const ServerOptions& options, const sigset_t& signals) {
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options, STOWAGE_VERSION);
  if (!server.ok()) {
    Log(LogLevel::kError, "cannot_start", {{"message", std::string(server.status().message())}});
    return EXIT_FAILURE;
  }
  Log(LogLevel::kInfo, "serving",
      {{"address", (*server)->address()},
       {"http", (*server)->http_address()},
       {"cache_dir", options.cache_dir},
       {"tls", TlsText(options.security.tls)},
       {"tokens", options.security.token_file.empty() ? "none" : "required"},
       {"http_tls", options.security.http_tls ? "server" : "none"},
       {"http_tokens", options.security.http_token_file.empty() ? "none" : "required"},
       {"version", STOWAGE_VERSION},
       {"threads", absl::StrCat(options.engine.threads)}});
  NotifyReady((*server)->address());
  const int signal = WaitForSignal(signals);
  Log(LogLevel::kInfo, "draining",
      {{"signal", absl::StrCat(signal)}, {"grace_seconds", absl::StrCat(options.grace_seconds)}});
  NotifyStopping(options.grace_seconds + kLastWritesSeconds);
  // A second signal ends the process at once.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  (*server)->Drain();
  Log(LogLevel::kInfo, "stopped", {});
  return EXIT_SUCCESS;
}

int Main(int argc, char** argv) {
  const sigset_t signals = BlockSignals();
  // Writing to a log whose reader has exited must not end the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // the write that exceeds a limit on file sizes reports it
  const absl::StatusOr<ParsedOptions> parsed = ParseServerOptions(argc, argv, STOWAGE_VERSION);
  if (!parsed.ok()) {
    std::fprintf(stderr, "stowage-server: %s\n", std::string(parsed.status().message()).c_str());
    return EXIT_FAILURE;
  }
  if (!parsed->text.empty()) {
    std::fputs(parsed->text.c_str(), stdout);
    return EXIT_SUCCESS;
  }
  if (const absl::Status status = SetLogLevel(parsed->options.log_level); !status.ok()) {
    std::fprintf(stderr, "stowage-server: --log-level: %s\n",
                 std::string(status.message()).c_str());
    return EXIT_FAILURE;
  }
  gpr_set_log_function(LogFromGrpc);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);  // as HandshakeLog needs
  AllowAllFiles();
  return Serve(parsed->options, signals);
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
