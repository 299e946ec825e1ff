// What several commands read: a chain, a platform, a server, an output format. Add…() declares the
// flags; Read…() parses their values once the command line has been accepted.
#ifndef STOWAGE_CLIENT_CLI_ARGUMENTS_H_
#define STOWAGE_CLIENT_CLI_ARGUMENTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/lib/rpc/failover_client.h"
#include "solver/base/prefixed.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "stowage/v1/model.pb.h"

namespace stowage {

// Runs a parsed command; returns the exit code.
using Subcommand = std::function<absl::StatusOr<int>()>;
inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitInfeasible = 2;
inline constexpr int kExitFitsWithPlan = 3;  // of admit
inline constexpr int kExitNoAnswer = 4;      // of admit: the server did not answer

// The whole file, or standard input for "-".
// Errors: NOT_FOUND and the like, with the path.
absl::StatusOr<std::string> ReadInput(const std::string& path);

// A profile. Errors of ReadChain() name the file and the field.
struct ChainFile {
  v1::Chain message;  // as in the file, with the provenance that Chain lacks; valid
  Chain chain;        // the same with printable names: for output, since two of them may be equal
};
absl::StatusOr<ChainFile> ReadChain(const std::string& path);

// The check of an option whose text goes to a server as it is: empty, or what is wrong.
std::string Utf8Problem(const std::string& text);

// "text" or "json".
void AddFormat(CLI::App& command, std::string* format);

// The flags that describe a platform.
struct PlatformFlags {
  std::string file;  // JSON of solver/README.md's Platform; the flags below override it
  std::string memory;
  std::string offload_bandwidth;
  std::string prefetch_bandwidth;
  std::string transfer_latency;
  std::string host_memory;
  bool half_duplex = false;
};
// Whether a command takes a single budget.
enum class MemoryFlag { kRequired, kAbsent };
void AddPlatform(CLI::App& command, MemoryFlag memory, PlatformFlags* flags);

// The valid platform that the flags describe for `chain`. "--memory 40%" is relative to the range
// from M_low (0 %) to M_high (100 %) of the chain. `otherwise` holds where there is neither a file
// nor the flag. Errors name the flag.
absl::StatusOr<Platform> ReadPlatform(const PlatformFlags& flags, const Chain& chain,
                                      MemoryFlag memory, v1::Platform otherwise = {});

// Refuses flags about the link to the host where the platform has none. Errors name the flag.
absl::Status CheckLinkFlags(const PlatformFlags& flags, const Platform& platform);

inline constexpr const char* kDefaultServer = "127.0.0.1:50051";

// Addresses, timeout and credentials of servers.
struct ServerFlags {
  std::vector<std::string> servers;  // empty: not given
  std::string timeout;               // empty: none
  CredentialFiles credentials;
};
void AddServer(CLI::App& command, const std::string& when_absent, ServerFlags* flags);

// `default_server` where the flags name none; no server where that is empty. Errors name the flag
// and the address.
absl::StatusOr<RemoteOptions> ReadServer(const ServerFlags& flags,
                                         const std::string& default_server = "");

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_ARGUMENTS_H_
