#include "server/parse_options.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "server/option_checks.h"
#include "server/server_flags.h"
#include "solver/base/cores.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Where systemd, or else the XDG base directories, put the cache; empty: the environment names
// neither, as for a service without a home directory.
std::string DefaultCacheDir() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  if (std::string state = variable("STATE_DIRECTORY"); !state.empty()) return state;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/stowage";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/stowage";
}

// Names the file and the line in an error about one of the options that a file has set.
absl::Status WithPlace(const std::vector<SetByFile>& from_file, const absl::Status& error) {
  const absl::optional<absl::Cord> about = error.GetPayload(kOptionPayload);
  for (const SetByFile& option : from_file) {
    if (about == absl::StrCat("--", option.name)) return Prefixed(option.place, error);
  }
  return error;
}

}  // namespace

// CLI11 throws for errors, --help and --version; nothing of that leaves this function. Defaults
// that depend on the machine are set before parsing, so that an option replaces them.
absl::StatusOr<ParsedOptions> ParseServerOptions(int argc, char** argv,
                                                 const std::string& version) {
  ParsedOptions parsed;
  ServerOptions& options = parsed.options;
  options.engine.threads = UsableCores();
  options.engine.short_threads = 1;
  options.cache_dir = DefaultCacheDir();
  TextOptions texts;

  CLI::App app(
      "Stowage: fits a training job into GPU memory with the least time lost.\n"
      "Serves stowage.v1.Scheduler, health and reflection over gRPC.",
      "stowage-server");
  app.set_version_flag("--version", "stowage-server " + version);
  AddServerFlags(app, &options, &texts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.text = app.help();
    return parsed;
  } catch (const CLI::CallForVersion&) {
    parsed.text = absl::StrCat("stowage-server ", version, "\n");
    return parsed;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(absl::StrCat(error.what(), "; see stowage-server --help"));
  }
  std::vector<SetByFile> from_file;
  if (app.count("--config") > 0) {
    options.config_file = texts.config;
    ASSIGN_OR_RETURN(from_file, ReadConfigFile(texts.config, app));
  }
  const absl::Status complete = CompleteOptions(texts, &options);
  if (!complete.ok()) return WithPlace(from_file, complete);
  parsed.texts = OptionTexts(app);
  return parsed;
}

}  // namespace stowage
