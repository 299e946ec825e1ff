#include "server/config_changes.h"

#include <cassert>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace stowage {

ConfigChanges ApplyChanges(const std::vector<OptionText>& wanted,
                           absl::FunctionRef<bool(absl::string_view)> apply,
                           std::vector<OptionText>* in_force) {
  assert(wanted.size() == in_force->size());
  ConfigChanges changes;
  for (size_t i = 0; i < wanted.size(); ++i) {
    OptionText& current = (*in_force)[i];
    assert(wanted[i].name == current.name);
    if (wanted[i] == current) continue;
    const std::string change =
        absl::StrCat(current.name, ": ", current.value, " -> ", wanted[i].value);
    if (apply(current.name)) {
      current = wanted[i];
      changes.applied.push_back(change);
    } else {
      changes.after_restart.push_back(change);
    }
  }
  return changes;
}

}  // namespace stowage
