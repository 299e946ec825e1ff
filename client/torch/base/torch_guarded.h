// Converts LibTorch's exceptions to absl::Status.
#ifndef STOWAGE_CLIENT_TORCH_BASE_TORCH_GUARDED_H_
#define STOWAGE_CLIENT_TORCH_BASE_TORCH_GUARDED_H_

#include <c10/util/Exception.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "client/agent/guarded.h"

namespace stowage {

// LibTorch's message without its stack trace: RESOURCE_EXHAUSTED for memory, INVALID_ARGUMENT for a
// ValueError, else INTERNAL.
inline absl::Status StatusOf(const c10::Error& error) {
  const std::string what = error.what_without_backtrace();
  if (dynamic_cast<const c10::ValueError*>(&error) != nullptr) {
    return absl::InvalidArgumentError(what);
  }
  const bool memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                      absl::StrContains(what, "can't allocate memory");
  return {memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal, what};
}

// Guarded() with the codes of StatusOf() for LibTorch's errors.
template <typename Call>
absl::Status TorchGuarded(const Call& call) {
  return Guarded([&call]() -> absl::Status {
    try {
      return call();
    } catch (const c10::Error& error) {
      return StatusOf(error);
    }
  });
}

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_BASE_TORCH_GUARDED_H_
