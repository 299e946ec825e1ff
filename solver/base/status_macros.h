// RETURN_IF_ERROR and ASSIGN_OR_RETURN: the project's only two macros.
#ifndef STOWAGE_SOLVER_BASE_STATUS_MACROS_H_
#define STOWAGE_SOLVER_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot be in parentheses.

// Returns from the enclosing function when `expression` is not OK.
#define RETURN_IF_ERROR(expression)                                         \
  do {                                                                      \
    if (absl::Status status_of_macro = (expression); !status_of_macro.ok()) \
      return status_of_macro;                                               \
  } while (false)

// ASSIGN_OR_RETURN(auto x, Call()): declares or assigns x, or returns Call()'s error.
#define ASSIGN_OR_RETURN(target, expression) \
  STOWAGE_ASSIGN_OR_RETURN_(STOWAGE_CONCAT_(status_or_, __LINE__), target, expression)
#define STOWAGE_ASSIGN_OR_RETURN_(result, target, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) return std::move(result).status();        \
  target = *std::move(result)
#define STOWAGE_CONCAT_(a, b) STOWAGE_CONCAT_INNER_(a, b)
#define STOWAGE_CONCAT_INNER_(a, b) a##b

// NOLINTEND(bugprone-macro-parentheses)

#endif  // STOWAGE_SOLVER_BASE_STATUS_MACROS_H_
