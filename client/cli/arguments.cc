#include "client/cli/arguments.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/lib/credential_flags.h"
#include "client/lib/memory_budget.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "solver/base/address.h"
#include "solver/base/file.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/model/validate.h"

namespace stowage {
namespace {

// Limits the list of violated fields to a screen of a terminal.
constexpr size_t kMessageCharacters = 1000;
constexpr const char* kPlatformGroup = "Platform";

// Parses `text` into `value` unless it is empty. Errors name the flag.
template <typename Parser, typename Value>
absl::Status Read(absl::string_view flag, const std::string& text, Parser parse, Value* value) {
  if (text.empty()) return absl::OkStatus();
  const auto parsed = parse(text);
  if (!parsed.ok()) return Prefixed(flag, parsed.status());
  *value = *parsed;
  return absl::OkStatus();
}

// Adds options to the platform's group.
auto AdderOf(CLI::App& command) {
  return [&command](const char* name, std::string& value, const char* type, const char* help) {
    command.add_option(name, value, help)->type_name(type)->group(kPlatformGroup);
  };
}

absl::Status ReadPlatformFile(const std::string& path, v1::Platform* platform) {
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string json, ReadInput(path));
  platform->Clear();  // the file replaces the defaults as a whole
  return Prefixed(path, FromJson(json, "platform", platform));
}

}  // namespace

absl::StatusOr<std::string> ReadInput(const std::string& path) {
  return path == "-" ? ReadToEnd(stdin, path) : ReadWholeFile(path);
}

absl::StatusOr<ChainFile> ReadChain(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string json, ReadInput(path));
  const std::string name = path == "-" ? "standard input" : path;
  ChainFile file;
  RETURN_IF_ERROR(Prefixed(name, FromJson(json, "chain", &file.message)));
  file.chain = FromMessage(file.message);
  RETURN_IF_ERROR(Prefixed(name, ViolationsStatus(Violations(file.chain), kMessageCharacters)));
  file.chain.name = Printable(file.chain.name);
  for (Stage& stage : file.chain.stages) stage.name = Printable(stage.name);
  return file;
}

std::string Utf8Problem(const std::string& text) {
  return ValidUtf8(text) == text ? "" : Quoted(text) + " is not UTF-8";
}

void AddFormat(CLI::App& command, std::string* format) {
  command.add_option("--format", *format, "text for people, json for programs")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str()
      ->type_name("FORMAT")
      ->group("Output");
}

void AddPlatform(CLI::App& command, MemoryFlag memory, PlatformFlags* flags) {
  const auto add = AdderOf(command);
  add("--platform", flags->file, "FILE",
      "JSON of a platform; the flags below override it; - reads standard input");
  if (memory == MemoryFlag::kRequired) {
    add("--memory", flags->memory, "SIZE",
        "device memory for activations: 4GiB, 1.5GB, bytes without a unit; or 40% of the range "
        "from the memory floor, below which no schedule exists (0%), to storing everything (100%)");
  }
  add("--offload-bandwidth", flags->offload_bandwidth, "RATE",
      "device to host: 12GB/s, bytes a second without a unit; default 0: nothing is offloaded");
  add("--prefetch-bandwidth", flags->prefetch_bandwidth, "RATE",
      "host to device; default: as offload");
  add("--transfer-latency", flags->transfer_latency, "DURATION",
      "fixed cost of a transfer: 10us, 1ms, seconds without a unit; default 0");
  add("--host-memory", flags->host_memory, "SIZE",
      "limit of host memory for offloaded values; default 0: unlimited");
  command.add_flag("--half-duplex", flags->half_duplex, "both directions share one link")
      ->group(kPlatformGroup);
}

absl::StatusOr<Platform> ReadPlatform(const PlatformFlags& flags, const Chain& chain,
                                      MemoryFlag memory, v1::Platform otherwise) {
  // Precedence: a flag, then the --platform file as a whole, then `otherwise`.
  v1::Platform message = std::move(otherwise);
  RETURN_IF_ERROR(ReadPlatformFile(flags.file, &message));
  if (memory == MemoryFlag::kRequired && !message.has_memory_bytes() && flags.memory.empty()) {
    return absl::InvalidArgumentError(
        "--memory: is missing; give the device memory for activations, as in --memory 4GiB or "
        "--memory 40%, or a --platform file with memory_bytes");
  }
  // An empty flag leaves the value of the file or the default.
  Platform platform = FromMessage(message);
  RETURN_IF_ERROR(Read(
      "--memory", flags.memory,
      [&chain](const std::string& text) { return ParseBudget(text, chain); },
      &platform.memory_bytes));
  RETURN_IF_ERROR(Read("--offload-bandwidth", flags.offload_bandwidth, ParseBytesPerSecond,
                       &platform.offload_bytes_per_second));
  RETURN_IF_ERROR(Read("--prefetch-bandwidth", flags.prefetch_bandwidth, ParseBytesPerSecond,
                       &platform.prefetch_bytes_per_second));
  RETURN_IF_ERROR(Read("--transfer-latency", flags.transfer_latency, ParseSeconds,
                       &platform.transfer_latency_seconds));
  RETURN_IF_ERROR(
      Read("--host-memory", flags.host_memory, ParseBytes, &platform.host_memory_bytes));
  if (flags.half_duplex) platform.half_duplex = true;
  RETURN_IF_ERROR(ViolationsStatus(Violations(platform), kMessageCharacters));
  return platform;
}

// Without an offload bandwidth the other link flags would be ignored silently, so they are errors.
absl::Status CheckLinkFlags(const PlatformFlags& flags, const Platform& platform) {
  if (platform.offload_bytes_per_second > 0) return absl::OkStatus();
  const std::pair<const char*, bool> given[] = {
      {"--prefetch-bandwidth", !flags.prefetch_bandwidth.empty()},
      {"--transfer-latency", !flags.transfer_latency.empty()},
      {"--host-memory", !flags.host_memory.empty()},
      {"--half-duplex", flags.half_duplex}};
  for (const auto& [flag, is_given] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag,
                     ": nothing is offloaded without --offload-bandwidth; add it, as in "
                     "--offload-bandwidth 12GB/s"));
  }
  return absl::OkStatus();
}

// `when_absent`: the default that the help text names.
void AddServer(CLI::App& command, const std::string& when_absent, ServerFlags* flags) {
  command
      .add_option("--server", flags->servers,
                  "host:port or unix:PATH of a server, or of several, separated by commas: a call "
                  "goes to one of them, and to the next where that does not answer; default: " +
                      when_absent)
      ->delimiter(',')
      ->allow_extra_args(false)  // one value a flag, which may be repeated
      ->type_name("ADDRESS")
      ->group("Server");
  command
      .add_option("--timeout", flags->timeout,
                  "time limit of the request, repeated or not: 30s, 500ms; default: none")
      ->type_name("DURATION")
      ->group("Server");
  AddCredentials(command, &flags->credentials);
}

absl::StatusOr<RemoteOptions> ReadServer(const ServerFlags& flags,
                                         const std::string& default_server) {
  RemoteOptions options;
  options.servers = flags.servers;
  if (options.servers.empty() && !default_server.empty()) options.servers = {default_server};
  for (const std::string& server : options.servers) {
    RETURN_IF_ERROR(Prefixed("--server", CheckAddress(server)));
  }
  ASSIGN_OR_RETURN(options.credentials, ReadCredentials(flags.credentials));
  options.passed_over = [](const absl::Status& failure) {
    absl::FPrintF(stderr, "stowage: %s; another server answered\n", Printable(failure.message()));
  };
  if (flags.timeout.empty()) return options;
  double seconds = 0;
  RETURN_IF_ERROR(Read("--timeout", flags.timeout, ParseSeconds, &seconds));
  // Written so that NaN is refused, too.
  if (!(seconds > 0 && seconds <= 1e6)) {
    return absl::InvalidArgumentError("--timeout: must be more than 0 and at most 1e6 seconds");
  }
  options.timeout_seconds = seconds;
  return options;
}

}  // namespace stowage
