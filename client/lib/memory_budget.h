// Memory budgets as users write them on a command line.
#ifndef STOWAGE_CLIENT_LIB_MEMORY_BUDGET_H_
#define STOWAGE_CLIENT_LIB_MEMORY_BUDGET_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "solver/model/chain.h"

namespace stowage {

// "4GiB", "1000" (bytes), or "40%": from M_low (0 %) to M_high (100 %) of the chain, rounded down.
// Source: solver/README.md, "The range of budgets". Errors: INVALID_ARGUMENT with the accepted
// forms. Requires: Violations(chain) is empty. Thread-safe.
absl::StatusOr<int64_t> ParseBudget(absl::string_view text, const Chain& chain);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_MEMORY_BUDGET_H_
