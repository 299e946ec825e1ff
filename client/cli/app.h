// The command line `stowage`: its commands, and what all of them share.
#ifndef STOWAGE_CLIENT_CLI_APP_H_
#define STOWAGE_CLIENT_CLI_APP_H_

namespace stowage {

// Runs what the arguments ask for. Exit codes: 0, 1 error, 2 infeasible.
int RunApp(int argc, char** argv);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_APP_H_
