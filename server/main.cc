// stowage-server: parses options, serves until SIGTERM or SIGINT, drains, exits 0. After SIGTERM it
// is a lame duck before it drains. On SIGHUP it reads its configuration again (signals.h).
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpc/support/log.h"
#include "server/net/descriptors.h"
#include "server/observe/log.h"
#include "server/observe/systemd.h"
#include "server/parse_options.h"
#include "server/process_limits.h"
#include "server/security/handshake_failures.h"
#include "server/server.h"
#include "server/server_options.h"
#include "server/signals.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

// How long draining may take beyond the grace period: responses are sent, and writes to the disk
// cache end.
constexpr double kLastWritesSeconds = 10;

// Has the C library map blocks from a mebibyte on one by one, and unmap them when they are freed.
// By default it raises that limit to the largest block that was freed: solvers' tables then lie in
// its arenas, several of which keep as much as all solves may take together.
void MapLargeBlocks() { mallopt(M_MMAP_THRESHOLD, 1 << 20); }

// Abseil as packaged has the checks of debug builds: at each lock that gRPC takes, a dozen in every
// call, it looks for cycles in the order of locks, under one lock of the whole process. Before the
// first lock, so that it begins no graph of them.
void LeaveLockOrderUnchecked() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

// gRPC's messages, in the format of our log. Failures among them are also reported by our own code.
void LogFromGrpc(gpr_log_func_args* args) {
  HandshakeFailures::Read(args->message);
  Log(LogLevel::kDebug, "grpc", {{"message", args->message}});
}

std::string TlsText(const TlsFiles& tls) {
  if (tls.certificate.empty()) return "none";
  return tls.client_authorities.empty() ? "server" : "mutual";
}

// Ends a start for which the system gives too little memory or too few threads all the same.
[[noreturn]] void EndStart() {
  std::string what = "an unknown error";
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    what = error.what();
  }
  std::fprintf(stderr,
               "stowage-server: cannot start: %s; raise the limits on memory and processes\n",
               what.c_str());
  std::_Exit(EXIT_FAILURE);
}

// Ends when balancers have had time to notice, or with a second signal.
void ServeAsLameDuck(double seconds, Server* server) {
  server->BecomeLameDuck();
  Log(LogLevel::kInfo, "lame_duck", {{"seconds", absl::StrCat(seconds)}});
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  const timespec wait = absl::ToTimespec(absl::Seconds(seconds));
  sigtimedwait(&ending, nullptr, &wait);
}

int Serve(const CommandLine& line, const ParsedOptions& parsed, const sigset_t& signals) {
  const ServerOptions& options = parsed.options;
  const std::terminate_handler usual = std::set_terminate(EndStart);
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(parsed, STOWAGE_VERSION);
  std::set_terminate(usual);
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
       {"operators", options.security.operator_token_file.empty() ? "none" : "tokens"},
       {"version", STOWAGE_VERSION},
       {"threads", absl::StrCat(options.engine.threads)}});
  NotifyReady((*server)->address());
  const int signal = ReloadUntilStopped(line, signals, server->get());
  // Whoever types Ctrl-C has no balancer.
  const double lame_duck_seconds = signal == SIGTERM ? (*server)->lame_duck_seconds() : 0;
  const double grace_seconds = (*server)->grace_seconds();
  NotifyStopping(lame_duck_seconds + grace_seconds + kLastWritesSeconds);
  if (lame_duck_seconds > 0) ServeAsLameDuck(lame_duck_seconds, server->get());
  Log(LogLevel::kInfo, "draining",
      {{"signal", absl::StrCat(signal)}, {"grace_seconds", absl::StrCat(grace_seconds)}});
  // Another signal ends the process at once, unless it asks for a reload, which comes too late.
  std::signal(SIGHUP, SIG_IGN);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  (*server)->Drain();
  Log(LogLevel::kInfo, "stopped", {});
  return EXIT_SUCCESS;
}

int Fail(absl::string_view message) {
  std::fprintf(stderr, "stowage-server: %s\n", Printable(message).c_str());
  return EXIT_FAILURE;
}

int Main(int argc, char** argv) {
  MapLargeBlocks();
  LeaveLockOrderUnchecked();
  const sigset_t signals = BlockSignals();
  // Writing to a log whose reader has exited must not end the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // the write that exceeds a limit on file sizes reports it
  absl::StatusOr<ParsedOptions> parsed = ParseServerOptions(argc, argv, STOWAGE_VERSION);
  if (!parsed.ok()) return Fail(parsed.status().message());
  if (!parsed->text.empty()) {
    std::fputs(parsed->text.c_str(), stdout);
    return EXIT_SUCCESS;
  }
  SetLogFormat(parsed->options.log_format == "json" ? LogFormat::kJson : LogFormat::kText);
  (void)SetLogLevel(parsed->options.log_level);  // which has been checked
  gpr_set_log_function(LogFromGrpc);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);  // as HandshakeFailures needs
  AllowAllFiles();
  const absl::Status fits = FitIntoProcessLimits(&parsed->options);
  if (!fits.ok()) return Fail(fits.message());
  StartLogThread();
  LogAbort();
  const int exit_code = Serve({argc, argv, STOWAGE_VERSION}, *parsed, signals);
  FlushLog();
  return exit_code;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
