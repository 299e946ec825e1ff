// What the system lets the process have: address space and threads. Checked before the server
// starts, because libraries abort the process where they get neither.
#ifndef STOWAGE_SERVER_PROCESS_LIMITS_H_
#define STOWAGE_SERVER_PROCESS_LIMITS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/server_options.h"

namespace stowage {

// The most threads that a server with these options starts on a machine with so many processors,
// those of gRPC included.
int ThreadsOf(const EngineOptions& options, int processors);

// How much address space the process may have (ulimit -v); nullopt: as much as it likes.
std::optional<int64_t> AddressSpaceLimit();

// The address space of a process that has not started its threads.
struct AddressSpace {
  int64_t limit_bytes = 0;   // as set with ulimit -v
  int64_t mapped_bytes = 0;  // the program and its libraries
  int64_t stack_bytes = 0;   // of one thread
};

// Shares out the address space that threads and messages leave: a quarter for allocators' reserves,
// which is returned, and at most the rest for caches and solves, whose limits in `options` are
// lowered where need be. Pure.
// Errors: RESOURCE_EXHAUSTED where too little is left, in one line with what is needed, the limit
// and the remedy.
absl::StatusOr<int64_t> ShareAddressSpace(const AddressSpace& space, int threads,
                                          ServerOptions* options);

// Makes allocator and options fit the limits of this process, and logs what it lowers. Requires: no
// other thread has started. Errors: those of ShareAddressSpace(), and RESOURCE_EXHAUSTED where the
// system does not let the process start its threads.
absl::Status FitIntoProcessLimits(ServerOptions* options);

}  // namespace stowage

#endif  // STOWAGE_SERVER_PROCESS_LIMITS_H_
