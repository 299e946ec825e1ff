// Converts exceptions to absl::Status.
#ifndef STOWAGE_CLIENT_AGENT_GUARDED_H_
#define STOWAGE_CLIENT_AGENT_GUARDED_H_

#include <exception>
#include <new>

#include "absl/status/status.h"

namespace stowage {

// Returns the status of `call`. std::bad_alloc becomes RESOURCE_EXHAUSTED, any other exception
// INTERNAL with its text.
template <typename Call>
absl::Status Guarded(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  } catch (...) {
    return absl::InternalError("threw an object that is no std::exception");
  }
}

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_GUARDED_H_
