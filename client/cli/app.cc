#include "client/cli/app.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

void AddVersionCommand(CLI::App& app, Subcommand* chosen) {
  CLI::App& command = *app.add_subcommand("version", "print the version");
  command.callback([chosen] {
    *chosen = []() -> absl::StatusOr<int> {
      std::puts("stowage " STOWAGE_VERSION);
      return kExitOk;
    };
  });
}

// Prints one line: names from the input may contain line ends.
int Fail(const std::string& message) {
  std::fprintf(stderr, "stowage: %s\n", Printable(message).c_str());
  return kExitError;
}

}  // namespace

int RunApp(int argc, char** argv) {
  // gRPC would log the errors that this program prints. Does not override the environment.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  CLI::App app(
      "Stowage: fits a training job into GPU memory with the least time lost.\n"
      "Exit codes: 0 done, 1 error, 2 infeasible; admit: 3 fits with a plan, 4 no answer.",
      "stowage");
  app.set_version_flag("--version", "stowage " STOWAGE_VERSION);
  Subcommand chosen;
  AddSolveCommand(app, &chosen);
  AddFrontierCommand(app, &chosen);
  AddAdmitCommand(app, &chosen);
  AddExportCommand(app, &chosen);
  AddCompareCommand(app, &chosen);
  AddLoadCommand(app, &chosen);
  AddTopCommand(app, &chosen);
  AddSimulateCommand(app, &chosen);
  AddViewCommand(app, &chosen);
  AddSolversCommand(app, &chosen);
  AddChainCommand(app, &chosen);
  AddOperatorCommand(app, &chosen);
  AddVersionCommand(app, &chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return Fail(std::string(error.what()) + "; see stowage --help or stowage COMMAND --help");
  }
  if (!chosen)
    return Fail(
        "a command is required: solve, frontier, admit, export, load, top, simulate, view, "
        "solvers, chain, operator or version; see stowage --help");
  const absl::StatusOr<int> code = chosen();
  if (!code.ok()) return Fail(std::string(code.status().message()));
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return Fail("cannot write to standard output");
  return *code;
}

}  // namespace stowage
