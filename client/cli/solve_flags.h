// What the commands that need a solver share: which one, its options, and who answers, a server or
// this process.
#ifndef STOWAGE_CLIENT_CLI_SOLVE_FLAGS_H_
#define STOWAGE_CLIENT_CLI_SOLVE_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/arguments.h"
#include "client/lib/client.h"
#include "client/lib/local.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

inline constexpr const char* kDefaultServer = "127.0.0.1:50051";

struct QuestionFlags {
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
// Adds --chain alone, to stand first in the help, and all others.
void AddChainOption(CLI::App& command, QuestionFlags* flags);
void AddQuestion(CLI::App& command, QuestionFlags* flags);

// The flags that make sense where a single schedule is asked for.
void AddTimeBudget(CLI::App& command, QuestionFlags* flags);

// The flags as options of a request. With --local times are exact unless the flags say otherwise:
// nobody shares the answer, so nothing is gained by rounding them.
// Errors name the flag.
absl::StatusOr<v1::SolveOptions> OptionsOf(const QuestionFlags& flags);

// The server to ask. Errors name the flag.
absl::StatusOr<Client> ClientOf(const QuestionFlags& flags);

// The memory and the patience of a solve in this process. Errors name the flag.
absl::StatusOr<LocalOptions> LocalOptionsOf(const QuestionFlags& flags);

// Errors speak of the API's fields; here they are flags, and there is --local.
absl::Status InFlags(const absl::Status& status);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_SOLVE_FLAGS_H_
