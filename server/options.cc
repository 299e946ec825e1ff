#include "server/options.h"

#include <algorithm>
#include <cstdint>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "solver/base/address.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

absl::Status Prefixed(const char* option, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", status.message()));
}

// Parses a size or a duration of `option` into `*value`.
template <typename Parser, typename Value>
absl::Status Read(const char* option, const std::string& text, Parser parse, Value* value) {
  const auto parsed = parse(text);
  if (!parsed.ok()) return Prefixed(option, parsed.status());
  *value = *parsed;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParsedOptions> ParseServerOptions(int argc, char** argv,
                                                 const std::string& version) {
  ParsedOptions parsed;
  ServerOptions& options = parsed.options;
  options.engine.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::string solve_memory = "4GiB";
  std::string max_message = "16MiB";
  std::string grace = "30s";

  CLI::App app(
      "Stowage: fits a training job into GPU memory with the least time lost.\n"
      "Serves stowage.v1.Scheduler, health and reflection over gRPC.",
      "stowage-server");
  app.set_version_flag("--version", "stowage-server " + version);
  app.add_option("--listen", options.listen, "host:port (port 0: any free one) or unix:PATH")
      ->capture_default_str()
      ->type_name("ADDRESS")
      ->group("Network");
  app.add_option("--max-message", max_message, "largest request that is read; e.g. 16MiB")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group("Network");
  app.add_option("--threads", options.engine.threads,
                 "solves that run at once; default: one a core")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->group("Solves");
  app.add_option("--queue-length", options.engine.queue_length, "requests that wait beyond those")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N")
      ->group("Solves");
  app.add_option("--solve-memory", solve_memory, "most memory that one solve may take; e.g. 4GiB")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group("Solves");
  app.add_option("--grace", grace, "how long running solves may take after SIGTERM; e.g. 30s")
      ->capture_default_str()
      ->type_name("DURATION")
      ->group("Operation");
  app.add_option("--log-level", options.log_level, "debug, info, warning or error")
      ->capture_default_str()
      ->type_name("LEVEL")
      ->group("Operation");
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
  const absl::Status address = CheckAddress(options.listen);
  if (!address.ok()) return Prefixed("--listen", address);
  RETURN_IF_ERROR(Read("--solve-memory", solve_memory, ParseBytes, &options.engine.solve_bytes));
  RETURN_IF_ERROR(Read("--grace", grace, ParseSeconds, &options.grace_seconds));
  int64_t message_bytes = 0;
  RETURN_IF_ERROR(Read("--max-message", max_message, ParseBytes, &message_bytes));
  if (message_bytes < 1024 || message_bytes > INT32_MAX) {
    return absl::InvalidArgumentError("--max-message: must be from 1KiB to below 2GiB");
  }
  options.max_message_bytes = static_cast<int>(message_bytes);
  if (options.grace_seconds > 86400) {
    return absl::InvalidArgumentError("--grace: must be at most a day (86400s)");
  }
  return parsed;
}

}  // namespace stowage
