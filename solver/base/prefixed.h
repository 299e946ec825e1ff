// Errors that say which flag, file or field they are about.
#ifndef STOWAGE_SOLVER_BASE_PREFIXED_H_
#define STOWAGE_SOLVER_BASE_PREFIXED_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stowage {

// `status` with `where` before its message, as in "--memory: 'much' is not a size"; OK stays OK.
// Without its payloads.
inline absl::Status Prefixed(absl::string_view where, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(where, ": ", status.message())};
}

template <typename T>
absl::StatusOr<T> Prefixed(absl::string_view where, absl::StatusOr<T> result) {
  if (!result.ok()) return Prefixed(where, result.status());
  return result;
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_PREFIXED_H_
