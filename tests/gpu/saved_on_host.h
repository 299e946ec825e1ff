// Plain training with all that autograd saves in host memory, as a baseline.
#ifndef STOWAGE_TESTS_GPU_SAVED_ON_HOST_H_
#define STOWAGE_TESTS_GPU_SAVED_ON_HOST_H_

#include "client/train/networks.h"

namespace stowage {

// What PyTorch's torch.autograd.graph.save_on_cpu(pin_memory=True) does around a forward and its
// loss, by the same hooks: each tensor that an operation saves, parameters included, is copied to
// host memory while everything waits, and copied back on the compute stream by the backward that
// reads it. Shares the network's modules. On the host device the copies are in memory that
// LibTorch's allocator does not count, as pinned memory is not a GPU's.
Network SavedOnHost(const Network& network, c10::Device device);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_SAVED_ON_HOST_H_
