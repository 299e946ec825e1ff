// What `stowage export` and `stowage compare` share: which framework, chain, layers and platform.
#ifndef STOWAGE_CLIENT_CLI_EXPORT_FLAGS_H_
#define STOWAGE_CLIENT_CLI_EXPORT_FLAGS_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/cli/solve_flags.h"
#include "nlohmann/json_fwd.hpp"
#include "solver/export/export.h"

namespace stowage {

struct ExportFlags {
  std::string target;
  std::string layers;
  SolveFlags solve;
  PlatformFlags platform;
  std::string format = "text";
};

// --layers, for ParseStages().
CLI::Option* AddLayers(CLI::App& command, std::string* layers);

// --for, --chain, --layers, those of the platform, and --format.
void AddExportFlags(CLI::App& command, ExportFlags* flags);

// Errors: INVALID_ARGUMENT with the flag.
absl::StatusOr<ExportRequest> ReadExportRequest(const ExportFlags& flags);

// Without the schedule. 64-bit integers are strings, as in protobuf's JSON.
nlohmann::ordered_json ToJson(const ComparedSchedule& compared);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_EXPORT_FLAGS_H_
