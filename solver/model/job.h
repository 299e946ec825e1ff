// A training job on one device: its chain of layers, and what else takes memory there.
// Source: solver/README.md, "Jobs".
#ifndef STOWAGE_SOLVER_MODEL_JOB_H_
#define STOWAGE_SOLVER_MODEL_JOB_H_

#include <algorithm>
#include <cstdint>
#include <optional>
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
    kAround,  // in what the model does before and after its layers, without these
  };

  std::string name = {};  // "weights"
  int64_t bytes = 0;
  Phase phase = Phase::kStep;

  bool operator==(const Component&) const = default;
};

struct TrainingJob {
  Chain chain;
  std::vector<Component> components = {};
  // What a step with all layers kept takes beside kStep, as measured; unset: as the chain says.
  std::optional<int64_t> plain_peak_bytes = {};

  bool operator==(const TrainingJob&) const = default;
};

// What a job takes beside its chain, in the parts of a step, which do not meet.
struct BesideChain {
  int64_t step = 0;     // always
  int64_t layers = 0;   // while forwards and backwards of layers run, `step` included
  int64_t outside = 0;  // the most while none runs, `step` included
};

// Requires: Violations(job) is empty.
inline BesideChain BesideChainOf(const TrainingJob& job) {
  using Phase = Component::Phase;
  const auto sum = [&job](Phase phase) {
    int64_t bytes = 0;
    for (const Component& component : job.components) {
      if (component.phase == phase) bytes += component.bytes;
    }
    return bytes;
  };
  const int64_t step = sum(Phase::kStep);
  return {.step = step,
          .layers = step + sum(Phase::kLayers),
          .outside = step + std::max(sum(Phase::kUpdate), sum(Phase::kAround))};
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_JOB_H_
