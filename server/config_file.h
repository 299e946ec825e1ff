// Configuration files: the options of the command line, one a line, as in
//   listen = "0.0.0.0:50051"  # a comment
// The format is CLI11's subset of TOML, without sections.
#ifndef STOWAGE_SERVER_CONFIG_FILE_H_
#define STOWAGE_SERVER_CONFIG_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stowage {

// An option that a file has set.
struct SetByFile {
  std::string name;   // without dashes
  std::string place;  // "/etc/stowage/server.toml:3"
};

// Sets those options of `app` that the command line, parsed before, has not set, and returns them.
// Keys are the options' long names without dashes.
// Errors: those of ReadSmallFile(); INVALID_ARGUMENT with the path, the line, the key and the
// remedy. Some options may be set by then.
absl::StatusOr<std::vector<SetByFile>> ReadConfigFile(const std::string& path, CLI::App& app);

// An option and the text of its value, as a file would set it: {"grace", "30s"}.
struct OptionText {
  std::string name;
  std::string value;  // "default" where nothing sets it and its default depends on the machine
  bool operator==(const OptionText&) const = default;
};

// The options of `app` that a file may set, in the order in which they were added.
std::vector<OptionText> OptionTexts(const CLI::App& app);

}  // namespace stowage

#endif  // STOWAGE_SERVER_CONFIG_FILE_H_
