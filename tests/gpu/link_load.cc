#include "tests/gpu/link_load.h"

#include <cstring>

#include "solver/base/status_macros.h"

namespace stowage {

absl::StatusOr<std::unique_ptr<LinkLoad>> LinkLoad::Create(Device* device, int64_t bytes) {
  std::unique_ptr<LinkLoad> load(new LinkLoad(device, bytes));
  RETURN_IF_ERROR(load->Allocate());
  return load;
}

absl::Status LinkLoad::Allocate() {
  for (DeviceSpan& span : on_device_) {
    ASSIGN_OR_RETURN(span, device_.Allocate(bytes_));
  }
  for (PinnedSpan& span : on_host_) {
    ASSIGN_OR_RETURN(span, device_.AllocatePinned(bytes_));
    // Pages that were never written are read faster and written more slowly than others.
    std::memset(span.data, 1, static_cast<size_t>(bytes_));
  }
  for (const DeviceSpan span : on_device_) {
    RETURN_IF_ERROR(device_.Copy(Queue::kToDevice, on_host_[0], span));
  }
  return device_.Synchronize();
}

LinkLoad::~LinkLoad() {
  (void)device_.Synchronize();
  for (const DeviceSpan span : on_device_) device_.Free(span);
  for (const PinnedSpan span : on_host_) device_.FreePinned(span);
}

absl::Status LinkLoad::Enqueue(Directions directions, int copies) {
  for (int i = 0; i < copies; ++i) {
    if (directions.to_host)
      RETURN_IF_ERROR(device_.Copy(Queue::kToHost, on_device_[0], on_host_[1]));
    if (directions.to_device)
      RETURN_IF_ERROR(device_.Copy(Queue::kToDevice, on_host_[0], on_device_[1]));
  }
  return absl::OkStatus();
}

absl::StatusOr<LinkRates> LinkLoad::Measure(Directions directions, int copies) {
  ASSIGN_OR_RETURN(const auto begin, device_.Record(Queue::kCompute));
  RETURN_IF_ERROR(device_.Wait(Queue::kToHost, begin));
  RETURN_IF_ERROR(device_.Wait(Queue::kToDevice, begin));
  RETURN_IF_ERROR(Enqueue(directions, copies));
  ASSIGN_OR_RETURN(const auto to_host, device_.Record(Queue::kToHost));
  ASSIGN_OR_RETURN(const auto to_device, device_.Record(Queue::kToDevice));
  RETURN_IF_ERROR(device_.Synchronize());
  const double bytes = static_cast<double>(bytes_) * copies;
  const auto rate = [&](const Event& end) { return bytes / (end.Seconds() - begin->Seconds()); };
  return LinkRates{directions.to_host ? rate(*to_host) : 0,
                   directions.to_device ? rate(*to_device) : 0};
}

}  // namespace stowage
