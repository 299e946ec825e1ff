// A baseline: plain training that keeps all tensors saved by autograd in host memory.
#ifndef STOWAGE_TESTS_GPU_SAVED_ON_HOST_H_
#define STOWAGE_TESTS_GPU_SAVED_ON_HOST_H_

#include "client/train/networks.h"

namespace stowage {

// The network with the hooks of PyTorch's torch.autograd.graph.save_on_cpu(pin_memory=True) around
// its forward and loss: each tensor that an operation saves, parameters included, is copied to host
// memory synchronously, and copied back on the compute stream by the backward that reads it. Shares
// the network's modules. On the host device the copies are in memory that LibTorch's allocator does
// not count, like pinned memory of a GPU.
Network SavedOnHost(const Network& network, c10::Device device);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_SAVED_ON_HOST_H_
