// The commands of `stowage`. Each function declares a subcommand, which sets `chosen` to its
// implementation when it is parsed. Exit codes: arguments.h.
#ifndef STOWAGE_CLIENT_CLI_COMMANDS_H_
#define STOWAGE_CLIENT_CLI_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/cli/arguments.h"

namespace stowage {

void AddSolveCommand(CLI::App& app, Command* chosen);
void AddFrontierCommand(CLI::App& app, Command* chosen);
void AddExportCommand(CLI::App& app, Command* chosen);
void AddLoadCommand(CLI::App& app, Command* chosen);
void AddTopCommand(CLI::App& app, Command* chosen);
void AddExperimentCommand(CLI::App& app, Command* chosen);
void AddOperatorCommand(CLI::App& app, Command* chosen);
void AddSimulateCommand(CLI::App& app, Command* chosen);
void AddViewCommand(CLI::App& app, Command* chosen);
void AddChainCommand(CLI::App& app, Command* chosen);
void AddSolversCommand(CLI::App& app, Command* chosen);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_COMMANDS_H_
