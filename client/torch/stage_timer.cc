#include "client/torch/work_timer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/torch/stream_guard.h"
#include "client/torch/torch_guarded.h"
#include "solver/base/status_macros.h"

namespace stowage {

absl::Status TimeWork(Device* device, c10::Device torch_device, DeviceWork work,
                      OperationTimes* last) {
  constexpr double kMaxLeadSeconds = 0.02;  // a first run sets up libraries for longer
  const double lead = std::min(1.5 * last->host_seconds, kMaxLeadSeconds);
  RETURN_IF_ERROR(device->Launch(Queue::kCompute, [torch_device, lead](void* stream) {
    return TorchGuarded([&] {
      KeepBusy(torch_device, stream, lead);
      return absl::OkStatus();
    });
  }));
  ASSIGN_OR_RETURN(const auto begin, device->Record(Queue::kCompute));
  const auto enqueued = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(device->Launch(Queue::kCompute, std::move(work)));
  ASSIGN_OR_RETURN(const auto end, device->Record(Queue::kCompute));
  last->host_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - enqueued).count();
  RETURN_IF_ERROR(device->Synchronize());
  last->device_seconds = end->Seconds() - begin->Seconds();
  return absl::OkStatus();
}

}  // namespace stowage
