// A border that nothing thrown crosses.
#ifndef STOWAGE_CLIENT_AGENT_GUARDED_H_
#define STOWAGE_CLIENT_AGENT_GUARDED_H_

#include <exception>
#include <new>

#include "absl/status/status.h"

namespace stowage {

// What `call` returns. What it throws becomes RESOURCE_EXHAUSTED for memory, else INTERNAL with the
// exception's text.
template <typename Call>
absl::Status Guarded(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  } catch (...) {
    return absl::InternalError("threw something that is no std::exception");
  }
}

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_GUARDED_H_
