// A training job on one device: its chain of layers, and what else takes memory there.
// Source: solver/README.md, "Jobs".
#ifndef STOWAGE_SOLVER_MODEL_JOB_H_
#define STOWAGE_SOLVER_MODEL_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "solver/model/chain.h"

namespace stowage {

inline constexpr size_t kMaxComponents = 100;  // of a job

struct Component {
  enum class Phase {
    kStep,    // there all the time
    kLayers,  // in forward and backward alone
    kUpdate,  // in the optimizer's step alone
  };

  std::string name = {};  // "weights"
  int64_t bytes = 0;
  Phase phase = Phase::kStep;

  bool operator==(const Component&) const = default;
};

struct TrainingJob {
  Chain chain;
  std::vector<Component> components = {};

  bool operator==(const TrainingJob&) const = default;
};

// What a job takes beside its chain in the two parts of a step, which do not meet.
struct BesideChain {
  int64_t layers = 0;  // while forwards and backwards run
  int64_t update = 0;  // while the optimizer runs
};

// Requires: Violations(job) is empty.
inline BesideChain BesideChainOf(const TrainingJob& job) {
  BesideChain bytes;
  for (const Component& component : job.components) {
    if (component.phase != Component::Phase::kUpdate) bytes.layers += component.bytes;
    if (component.phase != Component::Phase::kLayers) bytes.update += component.bytes;
  }
  return bytes;
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_JOB_H_
