// Compares a configuration that was read again with the one in force.
#ifndef STOWAGE_SERVER_CONFIG_CHANGES_H_
#define STOWAGE_SERVER_CONFIG_CHANGES_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "server/config_file.h"

namespace stowage {

// Each as "grace: 30s -> 60s".
struct ConfigChanges {
  std::vector<std::string> applied;
  std::vector<std::string> after_restart;
};

// Calls `apply` with the name of every option that differs; true: it is in force from now on, and
// `in_force` says so. What takes a restart is found again by every call until then. Requires: both
// list the same options in the same order.
ConfigChanges ApplyChanges(const std::vector<OptionText>& wanted,
                           absl::FunctionRef<bool(absl::string_view)> apply,
                           std::vector<OptionText>* in_force);

}  // namespace stowage

#endif  // STOWAGE_SERVER_CONFIG_CHANGES_H_
