// stowage top: a server's figures, refreshed at an interval.
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/top/screen.h"
#include "client/cli/top/status_reader.h"
#include "client/cli/top/top_json.h"
#include "client/cli/top/top_text.h"
#include "client/lib/rpc/credentials.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPlainWidth = 120;  // of output that is not on a terminal

struct TopArguments {
  std::string http = "127.0.0.1:50052";
  CredentialFiles credentials;
  std::string interval = "2s";
  int64_t count = 0;  // 0: unlimited
  bool once = false;
  std::string format = "text";
};

absl::StatusOr<Clock::duration> ReadInterval(const std::string& text) {
  ASSIGN_OR_RETURN(const double seconds, Prefixed("--interval", ParseSeconds(text)));
  if (seconds < 0.1 || seconds > 86400) {
    return absl::InvalidArgumentError("--interval: must be from 100ms to a day (86400s)");
  }
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string LocalTime(double unix_seconds) {
  const auto time = static_cast<std::time_t>(unix_seconds);
  std::tm local{};
  localtime_r(&time, &local);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%F %T", &local)};
}

// Turns successive answers into the view of each interval. A failed fetch leaves the last status in
// the view, with the problem beside it. After a restart there is no interval: the new process began
// to count at 0.
class Watch {
 public:
  explicit Watch(const std::string& address) { view_.address = address; }

  void Add(absl::StatusOr<v1::ServerStatus> status) {
    if (!status.ok()) {
      view_.problem = std::string(status.status().message());
      view_.problem_seconds = std::chrono::duration<double>(Clock::now() - answered_).count();
      return;
    }
    const v1::ServerStatus& before = view_.status;
    const bool restarted =
        since_.has_value() && status->start_unix_seconds() != before.start_unix_seconds();
    if (restarted) {
      ++view_.restarts;
      status->clear_last();
    }
    answered_ = Clock::now();
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    view_.unix_seconds = std::chrono::duration<double>(now).count();
    view_.time = LocalTime(view_.unix_seconds);
    view_.problem.clear();
    view_.status = *std::move(status);
    since_ = view_.status.uptime_seconds();
  }

  const TopView& view() const { return view_; }
  // For StatusReader::Fetch().
  std::optional<double> since_seconds() const { return since_; }

 private:
  TopView view_;
  std::optional<double> since_;                // uptime at the last success
  Clock::time_point answered_ = Clock::now();  // when that was
};

// Prints a block after each interval, about that interval.
absl::StatusOr<int> Print(const TopArguments& arguments, Clock::duration interval,
                          StatusReader& reader, Watch& watch) {
  // `next` advances by the interval, not from the end of a fetch, so that blocks do not drift;
  // after a slow fetch it skips what it missed.
  Clock::time_point next = Clock::now();
  for (int64_t i = 0; arguments.count == 0 || i < arguments.count; ++i) {
    next = std::max(next + interval, Clock::now());
    std::this_thread::sleep_until(next);
    watch.Add(reader.Fetch(watch.since_seconds()));
    const TopView& view = watch.view();
    std::string text;
    if (arguments.format == "json") {
      text = TopJson(view);
    } else if (!view.problem.empty()) {
      text =
          absl::StrCat("no answer from ", view.address, " for ", FormatUptime(view.problem_seconds),
                       ": ", view.problem, "; trying again\n");
    } else {
      text = PlainText(DrawTop(view, kPlainWidth));
    }
    if (i > 0 && arguments.format != "json") text.insert(0, "\n");
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (std::fflush(stdout) != 0) {
      return absl::UnavailableError("cannot write to standard output");
    }
  }
  return kExitOk;
}

// Redraws the terminal after each interval until the user quits. Fetches run in the background, one
// at a time, so that keys and resizing work while a server does not answer.
absl::StatusOr<int> Draw(Clock::duration interval, const StatusTarget& target, Watch& watch) {
  Screen screen;
  // Constructed after the screen, so that its thread inherits the screen's blocked signals.
  ASSIGN_OR_RETURN(const std::unique_ptr<StatusReader> reader, StatusReader::Make(target));
  Clock::time_point next = Clock::now() + interval;
  bool fetching = false;
  for (;;) {
    const ScreenSize size = screen.size();
    if (!screen.Show(Fit(DrawTop(watch.view(), size.columns), size))) return kExitOk;
    switch (screen.Wait(fetching ? Clock::time_point::max() : next, reader->ready_fd())) {
      case Screen::Event::kTime:
        reader->StartFetch(watch.since_seconds());
        fetching = true;
        next = std::max(next + interval, Clock::now());
        break;
      case Screen::Event::kReady:
        watch.Add(reader->FinishFetch());
        fetching = false;
        break;
      case Screen::Event::kRedraw:
        break;
      case Screen::Event::kQuit:
        return kExitOk;
    }
  }
}

absl::StatusOr<int> RunTop(TopArguments arguments) {
  ASSIGN_OR_RETURN(const Clock::duration interval, ReadInterval(arguments.interval));
  if (arguments.once) arguments.count = 1;
  ASSIGN_OR_RETURN(const Credentials credentials, ReadCredentials(arguments.credentials));
  const StatusTarget target = {.address = arguments.http,
                               .tls = credentials.tls,
                               .authorities_file = arguments.credentials.authorities,
                               .token = credentials.token};
  // A first failure is an error of the command; later ones are shown and retried.
  absl::StatusOr<std::unique_ptr<StatusReader>> reader = StatusReader::Make(target);
  if (!reader.ok()) return Prefixed("--http", reader.status());
  absl::StatusOr<v1::ServerStatus> first = (*reader)->Fetch(std::nullopt);
  if (absl::IsUnauthenticated(first.status()) || absl::IsPermissionDenied(first.status())) {
    return absl::Status(first.status().code(), absl::StrCat("no status from ", arguments.http, ": ",
                                                            first.status().message()));
  }
  if (!first.ok()) {
    return absl::UnavailableError(absl::StrCat(
        "no status from ", arguments.http, " (", first.status().message(),
        "); start stowage-server, or name the address of its --http (not --listen) with --http"));
  }
  Watch watch(arguments.http);
  watch.Add(std::move(first));
  if (arguments.count == 0 && arguments.format == "text" && Screen::IsSupported()) {
    return Draw(interval, target, watch);
  }
  return Print(arguments, interval, **reader, watch);
}

// Without the environment variables of the other commands: those are for the server's other port,
// and this one has its own tokens.
void AddHttpCredentials(CLI::App& command, CredentialFiles* files) {
  command
      .add_flag("--tls", files->tls,
                "use TLS, for a server with --http-tls, and verify it with the system's root "
                "certificates")
      ->group("Server");
  command
      .add_option("--tls-ca", files->authorities,
                  "use TLS, and verify the server with the root certificates in this PEM file")
      ->type_name("FILE")
      ->group("Server");
  command
      .add_option("--token-file", files->token,
                  "file with the bearer token to send, for a server with --http-token-file")
      ->type_name("FILE")
      ->group("Server");
}

}  // namespace

void AddTopCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App& command = *app.add_subcommand(
      "top", "watch a server: calls, hit ratio, latencies, queue, running solves");
  command.footer(
      "On a terminal it redraws until q or Ctrl-C; elsewhere, with --count or as JSON it prints "
      "one "
      "block per interval.\nPercentiles are interpolated in the buckets of the server's "
      "histograms.");
  command.add_option("--http", arguments->http, "host:port of the server's --http")
      ->capture_default_str()
      ->type_name("ADDRESS")
      ->group("Server");
  AddHttpCredentials(command, &arguments->credentials);
  command
      .add_option("--interval", arguments->interval,
                  "time between updates: 2s, 500ms; at least 100ms")
      ->capture_default_str()
      ->type_name("DURATION")
      ->group("Output");
  CLI::Option* const count =
      command.add_option("--count", arguments->count, "exit after this many blocks")
          ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}))
          ->type_name("N")
          ->group("Output");
  command.add_flag("--once", arguments->once, "print one block and exit, as --count 1")
      ->excludes(count)
      ->group("Output");
  AddFormat(command, &arguments->format);
  command.callback([arguments, chosen] { *chosen = [arguments] { return RunTop(*arguments); }; });
}

}  // namespace stowage
