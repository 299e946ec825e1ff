// Times work on a device's compute queue, one after the other.
#ifndef STOWAGE_CLIENT_TORCH_WORK_TIMER_H_
#define STOWAGE_CLIENT_TORCH_WORK_TIMER_H_

#include <c10/core/Device.h>

#include "absl/status/status.h"
#include "client/agent/device.h"
#include "client/torch/step_times.h"

namespace stowage {

// Runs `work` on `device`, which LibTorch calls `torch_device`, and waits for it. `last`: the times
// of the last such work, replaced by its own. A GPU is kept busy before for as long as the host
// took then, so that the GPU's time and the host's are measured apart. Errors: of the work, and the
// device's.
absl::Status TimeWork(Device* device, c10::Device torch_device, DeviceWork work,
                      OperationTimes* last);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_WORK_TIMER_H_
