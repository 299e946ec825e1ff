// What several commands take: a chain, a platform, a format. Flags here, parsing after the command
// line is known to be sound.
#ifndef STOWAGE_CLIENT_CLI_ARGUMENTS_H_
#define STOWAGE_CLIENT_CLI_ARGUMENTS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/lib/client.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "stowage/v1/model.pb.h"

namespace stowage {

// What a command line asks for; returns the exit code.
using Command = std::function<absl::StatusOr<int>()>;
inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitInfeasible = 2;

// The whole file, or standard input for "-".
// Errors: NOT_FOUND and the like, with the path.
absl::StatusOr<std::string> ReadInput(const std::string& path);

// `text` without the control characters that would forge lines or colours on a terminal.
std::string Printable(absl::string_view text);

// The chain in a file and its checked form, whose names are printable. Errors name the file and the
// field.
struct ChainFile {
  v1::Chain message;
  Chain chain;
};
absl::StatusOr<ChainFile> ReadChain(const std::string& path);

// "text" or "json".
void AddFormat(CLI::App& command, std::string* format);

// The flags that describe a platform.
struct PlatformFlags {
  std::string file;  // JSON of solver/README.md's Platform; the flags below win over it
  std::string memory;
  std::string offload_bandwidth;
  std::string prefetch_bandwidth;
  std::string transfer_latency;
  std::string host_memory;
  bool half_duplex = false;
};
// Whether a command asks about one budget.
enum class MemoryFlag { kRequired, kAbsent };
void AddPlatform(CLI::App& command, MemoryFlag memory, PlatformFlags* flags);

// The platform that the flags describe for `chain`, checked. "--memory 40%" runs from M_low (0 %)
// to M_high (100 %) of the chain. What neither flags nor file say is as in `otherwise`. Errors name
// the flag.
absl::StatusOr<Platform> ReadPlatform(const PlatformFlags& flags, const Chain& chain,
                                      MemoryFlag memory, v1::Platform otherwise = {});

// Flags about the link to the host mean nothing without one, which is not what their author had in
// mind. Errors name the flag.
absl::Status CheckLinkFlags(const PlatformFlags& flags, const Platform& platform);

// How a server is asked.
struct ServerFlags {
  std::string server;   // empty: not given
  std::string timeout;  // empty: none
  CredentialFiles credentials;
};
void AddServer(CLI::App& command, const std::string& when_absent, ServerFlags* flags);

// What the flags say; `default_server` where they name none. Errors name the flag.
absl::StatusOr<ClientOptions> ReadServer(const ServerFlags& flags,
                                         const std::string& default_server = "");

// `status` with `where` before its message.
absl::Status Prefixed(absl::string_view where, const absl::Status& status);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_ARGUMENTS_H_
