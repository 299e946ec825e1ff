// How many threads of this process the system runs at a time.
#ifndef STOWAGE_SOLVER_BASE_CORES_H_
#define STOWAGE_SOLVER_BASE_CORES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace stowage {

// Those that its affinity allows, and no more than the quotas of its control groups pay for,
// rounded up: a container of half a core has one. At least 1. Reads files of the kernel;
// thread-safe.
int UsableCores();

// The least quota of a control group and those around it, in cores, rounded up; `most` where none
// is less. `groups` is /proc/self/cgroup, `root` is where the kernel shows the groups: version 2
// there, version 1 in the folder cpu.
int CoresWithinQuota(int most, const std::string& root, absl::string_view groups);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_CORES_H_
