// A training job on one device: its chain of layers, and what else takes memory there.
// Source: solver/README.md, "Jobs".
#ifndef STOWAGE_SOLVER_MODEL_JOB_H_
#define STOWAGE_SOLVER_MODEL_JOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "solver/model/chain.h"

namespace stowage {

inline constexpr size_t kMaxComponents = 100;  // of a job
inline constexpr int kMaxInFlight = 1000;
inline constexpr int kMaxShards = 1'000'000;

struct Component {
  enum class Phase {
    kStep,    // there all the time
    kLayers,  // in forward and backward alone
    kUpdate,  // in the optimizer's step alone
    kAround,  // in what the model does before and after its layers, without these
  };

  std::string name = {};  // "weights"
  int64_t bytes = 0;
  Phase phase = Phase::kStep;
  int shards = 0;  // devices over which the bytes are divided; 0: none, `bytes` are this device's

  int64_t BytesOnDevice() const {
    return shards <= 1 ? bytes : bytes / shards + (bytes % shards == 0 ? 0 : 1);
  }

  bool operator==(const Component&) const = default;
};

struct TrainingJob {
  Chain chain;
  std::vector<Component> components = {};
  // What a step with all layers kept takes beside kStep, as measured; unset: as the chain says.
  std::optional<int64_t> plain_peak_bytes = {};
  int in_flight = 0;  // micro-batches whose values a pipeline's stage holds at once; 0: one

  bool operator==(const TrainingJob&) const = default;
};

// Of the components of a phase, on one device. Requires: Violations(job) is empty.
inline int64_t BytesIn(Component::Phase phase, const TrainingJob& job) {
  int64_t bytes = 0;
  for (const Component& component : job.components) {
    if (component.phase == phase) bytes += component.BytesOnDevice();
  }
  return bytes;
}

// What a job takes beside its chain, in the parts of a step, which do not meet.
struct BesideChain {
  int64_t step = 0;    // always
  int64_t layers = 0;  // while forwards and backwards of layers run, `step` included
  int64_t update = 0;  // in the optimizer's step, `step` included
  int64_t around = 0;  // before and after the layers, `step` included
};

// Requires: Violations(job) is empty.
inline BesideChain BesideChainOf(const TrainingJob& job) {
  using Phase = Component::Phase;
  const int64_t step = BytesIn(Phase::kStep, job);
  return {.step = step,
          .layers = step + BytesIn(Phase::kLayers, job),
          .update = step + BytesIn(Phase::kUpdate, job),
          .around = step + BytesIn(Phase::kAround, job)};
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_JOB_H_
