// The server's command line and its configuration file.
#ifndef STOWAGE_SERVER_PARSE_OPTIONS_H_
#define STOWAGE_SERVER_PARSE_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config_file.h"
#include "server/server_options.h"

namespace stowage {

// A parsed command line with its configuration file: options, or a text to print (help, version).
struct ParsedOptions {
  ServerOptions options;
  std::vector<OptionText> texts;  // of all options
  std::string text;               // not empty: print it and exit 0
};

// Reads the file of --config, too; the command line overrides it.
// Errors: one line that names the option, and the line of the file where that sets it;
// INVALID_ARGUMENT, or those of ReadConfigFile().
absl::StatusOr<ParsedOptions> ParseServerOptions(int argc, char** argv, const std::string& version);

}  // namespace stowage

#endif  // STOWAGE_SERVER_PARSE_OPTIONS_H_
