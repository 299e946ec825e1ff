// The commands of `stowage`. Each function declares a subcommand, which sets `chosen` to its
// implementation when it is parsed. Exit codes: arguments.h.
#ifndef STOWAGE_CLIENT_CLI_COMMANDS_H_
#define STOWAGE_CLIENT_CLI_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/cli/arguments.h"

namespace stowage {

void AddSolveCommand(CLI::App& app, Subcommand* chosen);
void AddFrontierCommand(CLI::App& app, Subcommand* chosen);
void AddAdmitCommand(CLI::App& app, Subcommand* chosen);
void AddExportCommand(CLI::App& app, Subcommand* chosen);
void AddCompareCommand(CLI::App& app, Subcommand* chosen);
void AddLoadCommand(CLI::App& app, Subcommand* chosen);
void AddTopCommand(CLI::App& app, Subcommand* chosen);
void AddOperatorCommand(CLI::App& app, Subcommand* chosen);
void AddSimulateCommand(CLI::App& app, Subcommand* chosen);
void AddViewCommand(CLI::App& app, Subcommand* chosen);
void AddChainCommand(CLI::App& app, Subcommand* chosen);
void AddSolversCommand(CLI::App& app, Subcommand* chosen);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_COMMANDS_H_
