#include "server/config_file.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <sstream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/security/small_file.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

// Sets the option as the command line would.
void Set(const CLI::Config& format, const CLI::ConfigItem& item, CLI::Option& option) {
  if (option.get_expected_min() == 0) {  // a flag: its text is "true" or "false"
    option.add_result(option.get_flag_value(item.name, format.to_flag(item)));
  } else {
    option.add_result(item.inputs);
  }
  option.run_callback();
}

}  // namespace

// CLI11 throws; nothing of that leaves this function. It could also read the file by itself, but
// then keeps the first of two values, and its errors do not name the file.
absl::StatusOr<std::vector<std::string>> ReadConfigFile(const std::string& path, CLI::App& app) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path, Writers::kAnybody);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat("--config: ", text.status().message()));
  }
  const auto wrong = [&path](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what...));
  };
  const CLI::ConfigTOML format;
  std::vector<std::string> names;
  std::set<std::string> seen;
  try {
    std::istringstream lines(*text);
    for (const CLI::ConfigItem& item : format.from_config(lines)) {
      if (!item.parents.empty()) {
        return wrong("section ", Quoted(item.parents.front()),
                     ": sections are not supported; write options alone");
      }
      CLI::Option* const option = app.get_option_no_throw("--" + item.name);
      if (option == nullptr || !option->get_configurable()) {
        return wrong(Quoted(item.name), " is no option that a file can set; the keys are the ",
                     "flags of stowage-server --help, without dashes");
      }
      const auto most_values =
          static_cast<size_t>(std::max(1, option->get_items_expected_max()));  // 0: a flag
      if (!seen.insert(item.name).second || item.inputs.size() > most_values) {
        return wrong(item.name, ": has more than one value; set it once, and put quotes around a ",
                     "value with spaces or commas");
      }
      if (option->count() > 0) continue;  // the command line has set it
      Set(format, item, *option);
      names.push_back(item.name);
    }
  } catch (const CLI::Error& error) {
    return wrong(error.what(), "; see stowage-server --help");
  }
  return names;
}

std::vector<OptionText> OptionTexts(const CLI::App& app) {
  std::vector<OptionText> texts;
  for (const CLI::Option* const option : app.get_options()) {
    if (!option->get_configurable()) continue;
    std::string value =
        option->count() > 0 ? absl::StrJoin(option->results(), ",") : option->get_default_str();
    texts.push_back({option->get_lnames().front(), value.empty() ? "default" : std::move(value)});
  }
  return texts;
}

}  // namespace stowage
