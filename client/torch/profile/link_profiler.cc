#include "client/torch/profile/link_profiler.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "solver/base/quantile.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Times copies between device memory and host memory.
class LinkTimer {
 public:
  struct Directions {
    bool to_host = false;
    bool to_device = false;
  };

  explicit LinkTimer(Device* device) : device_(*device) {}
  ~LinkTimer() {
    (void)device_.Synchronize();
    for (const DeviceSpan span : {read_, written_}) device_.Free(span);
    for (const PinnedSpan span : {host_read_, host_written_}) device_.FreePinned(span);
  }
  LinkTimer(const LinkTimer&) = delete;
  LinkTimer& operator=(const LinkTimer&) = delete;

  absl::Status Allocate(int64_t bytes) {
    ASSIGN_OR_RETURN(read_, device_.Allocate(bytes));
    ASSIGN_OR_RETURN(written_, device_.Allocate(bytes));
    ASSIGN_OR_RETURN(host_read_, device_.AllocatePinned(bytes));
    ASSIGN_OR_RETURN(host_written_, device_.AllocatePinned(bytes));
    // Pages that were never written are read faster and written more slowly than others.
    for (const PinnedSpan span : {host_read_, host_written_}) {
      std::memset(span.data, 1, static_cast<size_t>(bytes));
    }
    RETURN_IF_ERROR(device_.Copy(Queue::kToDevice, host_read_, read_));
    RETURN_IF_ERROR(device_.Copy(Queue::kToDevice, host_read_, written_));
    return device_.Synchronize();
  }

  // Seconds of copies of `bytes` in all directions at once, after one unmeasured run.
  absl::StatusOr<std::vector<double>> Seconds(Directions directions, int64_t bytes, int repeats) {
    std::vector<double> seconds;
    for (int run = -1; run < repeats; ++run) {
      ASSIGN_OR_RETURN(const double once, TimeOnce(directions, bytes));
      if (run >= 0) seconds.push_back(once);
    }
    return seconds;
  }

 private:
  absl::StatusOr<double> TimeOnce(Directions directions, int64_t bytes) {
    ASSIGN_OR_RETURN(const auto begin, device_.Record(Queue::kCompute));
    RETURN_IF_ERROR(device_.Wait(Queue::kToHost, begin));
    RETURN_IF_ERROR(device_.Wait(Queue::kToDevice, begin));
    if (directions.to_host) {
      RETURN_IF_ERROR(
          device_.Copy(Queue::kToHost, DeviceSpan{read_.data, bytes}, {host_written_.data, bytes}));
    }
    if (directions.to_device) {
      RETURN_IF_ERROR(device_.Copy(Queue::kToDevice, PinnedSpan{host_read_.data, bytes},
                                   {written_.data, bytes}));
    }
    ASSIGN_OR_RETURN(const auto to_host, device_.Record(Queue::kToHost));
    ASSIGN_OR_RETURN(const auto to_device, device_.Record(Queue::kToDevice));
    RETURN_IF_ERROR(device_.Synchronize());
    return std::max(to_host->Seconds(), to_device->Seconds()) - begin->Seconds();
  }

  Device& device_;
  DeviceSpan read_;
  DeviceSpan written_;
  PinnedSpan host_read_;
  PinnedSpan host_written_;
};

}  // namespace

absl::StatusOr<Platform> ProfileLink(Device* device, const LinkOptions& options) {
  LinkTimer timer(device);
  RETURN_IF_ERROR(timer.Allocate(options.bytes));
  Platform platform;
  platform.memory_bytes = INT64_MAX;
  const auto sorted = [&](LinkTimer::Directions directions) -> absl::StatusOr<std::vector<double>> {
    ASSIGN_OR_RETURN(std::vector<double> seconds,
                     timer.Seconds(directions, options.bytes, options.repeats));
    std::sort(seconds.begin(), seconds.end());
    return seconds;
  };
  // The minimum: noise only ever lengthens such a short time.
  ASSIGN_OR_RETURN(const std::vector<double> latencies,
                   timer.Seconds({.to_host = true}, 1, options.repeats));
  platform.transfer_latency_seconds = *std::min_element(latencies.begin(), latencies.end());
  ASSIGN_OR_RETURN(const std::vector<double> to_host, sorted({.to_host = true}));
  ASSIGN_OR_RETURN(const std::vector<double> to_device, sorted({.to_device = true}));
  ASSIGN_OR_RETURN(const std::vector<double> both, sorted({.to_host = true, .to_device = true}));
  const auto rate = [&](double seconds) {
    // At least half, in case the latency was measured too long.
    const double transfer_seconds =
        std::max(seconds - platform.transfer_latency_seconds, seconds / 2);
    return static_cast<double>(options.bytes) / transfer_seconds;
  };
  platform.offload_bytes_per_second = rate(MedianOf(to_host));
  platform.prefetch_bytes_per_second = rate(MedianOf(to_device));
  // On a full-duplex link `both` is about the maximum, on a half-duplex link about the sum. What is
  // between, such as a memory that both directions share, counts as half, by a margin that noise
  // does not cross: the least times have least of it.
  constexpr double kMostOfFullDuplex = 0.3;
  const auto [shorter, longer] = std::minmax(to_host.front(), to_device.front());
  platform.half_duplex = both.front() > longer + kMostOfFullDuplex * shorter;
  return platform;
}

}  // namespace stowage
