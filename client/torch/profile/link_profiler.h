// Measures the link between device and host.
#ifndef STOWAGE_CLIENT_TORCH_PROFILE_LINK_PROFILER_H_
#define STOWAGE_CLIENT_TORCH_PROFILE_LINK_PROFILER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/agent/device.h"
#include "solver/model/platform.h"

namespace stowage {

struct LinkOptions {
  int64_t bytes = int64_t{64} << 20;  // of one timed transfer
  int repeats = 5;
};

// Measures bandwidths and latency of the link. The caller sets the platform's memory. The link is
// half duplex unless concurrent copies in both directions take hardly longer than one alone.
// Errors: the device's.
absl::StatusOr<Platform> ProfileLink(Device* device, const LinkOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_PROFILE_LINK_PROFILER_H_
