// The device that trains and its link to host memory. Source: solver/README.md, "Platform".
#ifndef STOWAGE_SOLVER_MODEL_PLATFORM_H_
#define STOWAGE_SOLVER_MODEL_PLATFORM_H_

#include <cstdint>
#include <optional>
#include <string>

namespace stowage {

// Plain data. Every limit is on activations only, weights excluded.
struct Platform {
  std::string name;
  int64_t memory_bytes = 0;                         // M: for activations and their gradients
  double offload_bytes_per_second = 0;              // device to host; 0: nothing can be offloaded
  std::optional<double> prefetch_bytes_per_second;  // host to device; unset: as offload
  double transfer_latency_seconds = 0;              // fixed cost of each transfer
  bool half_duplex = false;                         // both directions share one link
  int64_t host_memory_bytes = 0;  // most that offloaded values may hold; 0: unlimited

  double prefetch_rate() const {  // B/s
    return prefetch_bytes_per_second.value_or(offload_bytes_per_second);
  }
  // Whether values can be offloaded and prefetched again.
  bool has_link() const { return offload_bytes_per_second > 0 && prefetch_rate() > 0; }

  bool operator==(const Platform&) const = default;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_PLATFORM_H_
