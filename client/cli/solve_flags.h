// The flags that commands with a solver share: the solver, its options, and the scheduler, a server
// or this process.
#ifndef STOWAGE_CLIENT_CLI_SOLVE_FLAGS_H_
#define STOWAGE_CLIENT_CLI_SOLVE_FLAGS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/arguments.h"
#include "client/lib/local_scheduler.h"
#include "client/lib/scheduler.h"
#include "proto/convert/chain_message.h"
#include "solver/base/status_macros.h"
#include "solver/model/request.h"
#include "solver/model/validate.h"

namespace stowage {

struct SolveFlags {
  std::string chain;
  std::string solver;
  int64_t slots = 0;
  int segments = 0;
  std::optional<double> time_precision;
  std::string time_budget;  // empty: none
  bool no_cache = false;
  bool local = false;
  std::string solve_memory = "4GiB";
  ServerFlags server;
};
// --chain by itself, so that it stands first in the help.
void AddChainFlag(CLI::App& command, SolveFlags* flags);
// --solver alone.
void AddSolverFlag(CLI::App& command, SolveFlags* flags);
// All but --chain and those of AddTimeBudgetFlags().
void AddSolveFlags(CLI::App& command, SolveFlags* flags);
// --time-budget and --no-cache, for commands that request single schedules.
void AddTimeBudgetFlags(CLI::App& command, SolveFlags* flags);

// The options of a request. Where no flag sets the time precision it is the service's default, or 0
// with --local: rounding makes requests share cached answers, and a local solve has no cache.
// Errors name the flag.
absl::StatusOr<SolveOptions> ReadSolveOptions(const SolveFlags& flags);

// What a SolveRequest and a FrontierRequest have in common: the chain with the file's own names,
// the platform, the solver and its options. Errors name the flag.
template <typename Request>
absl::StatusOr<Request> ReadRequest(const SolveFlags& solve, const PlatformFlags& platform,
                                    const ChainFile& file, MemoryFlag memory) {
  Request request;
  ASSIGN_OR_RETURN(request.platform, ReadPlatform(platform, file.chain, memory));
  RETURN_IF_ERROR(CheckLinkFlags(platform, request.platform));
  ASSIGN_OR_RETURN(request.options, ReadSolveOptions(solve));
  request.chain = FromMessage(file.message);
  request.solver = solve.solver;
  return request;
}

// The server, or this process with --local. Errors name the flag.
absl::StatusOr<std::unique_ptr<Scheduler>> MakeScheduler(const SolveFlags& flags);

// OK where nothing is wrong with a request, else INVALID_ARGUMENT that names fields by their flags.
absl::Status CheckRequest(const std::vector<FieldViolation>& violations);

enum class SolvedBy { kServer, kThisProcess };
inline SolvedBy SolverOf(const SolveFlags& flags) {
  return flags.local ? SolvedBy::kThisProcess : SolvedBy::kServer;
}

// The failure of a request with flags in place of the fields that are wrong, or with the flags that
// may help.
absl::Status InFlags(const absl::Status& status, SolvedBy solver);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_SOLVE_FLAGS_H_
