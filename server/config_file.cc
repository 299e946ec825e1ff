#include "server/config_file.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <sstream>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "solver/base/file.h"
#include "solver/base/prefixed.h"
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

// "PATH:LINE" of the last line that begins with `key`, which CLI11 does not tell; "PATH" where none
// does.
std::string PlaceOf(const std::string& path, absl::string_view text, absl::string_view key) {
  std::string place = path;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, key)) continue;
    line = absl::StripLeadingAsciiWhitespace(line);
    const bool is_whole = line.empty() || absl::StrContains("=#;]", line.substr(0, 1));
    if (is_whole) place = absl::StrCat(path, ":", number);
  }
  return place;
}

// Sets the option of one line. Errors: INVALID_ARGUMENT, which begins with the key.
absl::Status SetItem(const CLI::Config& format, const CLI::ConfigItem& item, CLI::App& app,
                     std::set<std::string>* seen, bool* is_set) {
  if (!item.parents.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("section ", Quoted(item.parents.front()),
                     ": sections are not supported; write options alone"));
  }
  CLI::Option* const option = app.get_option_no_throw("--" + item.name);
  if (option == nullptr || !option->get_configurable()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(item.name), " is no option that a file can set; the keys are the ",
                     "flags of stowage-server --help, without dashes"));
  }
  const auto max_values =
      static_cast<size_t>(std::max(1, option->get_items_expected_max()));  // 0: a flag
  if (!seen->insert(item.name).second || item.inputs.size() > max_values) {
    return absl::InvalidArgumentError(
        absl::StrCat(item.name, ": has more than one value; set it once, and put quotes around a ",
                     "value with spaces or commas"));
  }
  *is_set = option->count() == 0;  // otherwise the command line has set it
  try {
    if (*is_set) Set(format, item, *option);
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(absl::StrCat(error.what(), "; see stowage-server --help"));
  }
  return absl::OkStatus();
}

}  // namespace

// CLI11 throws; nothing of that leaves this function. It could also read the file by itself, but
// then keeps the first of two values, and its errors do not name the file.
absl::StatusOr<std::vector<SetByFile>> ReadConfigFile(const std::string& path, CLI::App& app) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path, FileKind::kRegular);
  if (!text.ok()) return Prefixed("--config", text.status());
  const CLI::ConfigTOML format;
  std::vector<CLI::ConfigItem> items;
  try {
    std::istringstream lines(*text);
    items = format.from_config(lines);
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", error.what(), "; see stowage-server --help"));
  }
  std::vector<SetByFile> options;
  std::set<std::string> seen;
  for (const CLI::ConfigItem& item : items) {
    const std::string key =
        item.parents.empty() ? item.name : absl::StrCat("[", item.parents.front());
    const std::string place = PlaceOf(path, *text, key);
    bool is_set = false;
    if (const absl::Status status = SetItem(format, item, app, &seen, &is_set); !status.ok()) {
      return Prefixed(place, status);
    }
    if (is_set) options.push_back({item.name, place});
  }
  return options;
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
