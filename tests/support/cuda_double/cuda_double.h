// Control of the double: its seed, faults to inject, what it has found, and kernels. What it models
// is in README.md. Every function is thread-safe.
#ifndef STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_CUDA_DOUBLE_H_
#define STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_CUDA_DOUBLE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/cuda_double/access_history.h"

namespace stowage::cuda_double {

struct Options {
  uint64_t seed = 1;  // of every choice that CUDA leaves to the device
  int devices = 1;
  size_t memory_bytes = size_t{64} << 20;  // of each device
  bool has_pools = true;                   // whether cudaMallocAsync() works
};

enum class Finding {
  kRace,          // two accesses without an order, of which one writes
  kUseAfterFree,  // of memory, a stream or an event
  kOutOfBounds,   // an access that is not within one allocation
  kMisuse,        // a call that CUDA forbids
  kLeak,          // what was never freed
};

struct Report {
  Finding finding = Finding::kMisuse;
  std::string text;  // with the backtraces of the calls
};

// Replaces the devices by new ones, and forgets all that was made on the old ones. Ends the program
// if reports were not taken: they are printed, so that no test passes over them.
void Reset(const Options& options = {});

// What was found since the last call.
std::vector<Report> TakeReports();
// What has been made and not freed: memory, registrations, streams, events.
std::vector<Report> Leaks();

// The `n`th call of an entry point from now on, from 1, returns `error` and does nothing. A call
// that frees or blocks does so all the same: CUDA returns errors of earlier work from these.
void FailCall(const std::string& entry_point, int n, cudaError_t error);
// The `n`th copy or kernel that runs from now on fails. From then on, every call returns `error`,
// and no more work runs.
void FailWork(int n, cudaError_t error);
// From now on, calls of an entry point succeed and do nothing: what tests are worth that do not see
// it.
void IgnoreCalls(const std::string& entry_point);
// The calls of an entry point since Reset().
int Calls(const std::string& entry_point);

// Enqueues a kernel: `body` runs as work of `stream` and accesses `ranges`, by View(). Errors are
// those of a launch.
cudaError_t LaunchKernel(cudaStream_t stream, const std::vector<Range>& ranges,
                         std::function<void()> body);
// Where a kernel's body finds the bytes at a device address, which itself faults. Registered host
// memory is where it is.
std::byte* View(const void* data);
// Declares an access to registered host memory by host code, or by the host function that runs.
void Touch(const Range& range);

}  // namespace stowage::cuda_double

#endif  // STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_CUDA_DOUBLE_H_
