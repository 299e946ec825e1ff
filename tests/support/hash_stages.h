// Stages whose values are hashes of every byte that they read: a value that is overwritten, dropped
// or not yet copied changes all values computed from it.
#ifndef STOWAGE_TESTS_SUPPORT_HASH_STAGES_H_
#define STOWAGE_TESTS_SUPPORT_HASH_STAGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/agent/stages.h"
#include "solver/base/mutex.h"
#include "solver/model/chain.h"

namespace stowage {

// What each backward read, and the last gradient. Two steps that compute the same have equal
// digests.
struct Digest {
  std::vector<uint64_t> backwards;  // by stage, from 1; 0: it did not run
  uint64_t input_gradient = 0;

  bool operator==(const Digest&) const = default;
};

// The digest of one step without a schedule: every value is kept.
Digest PlainStep(const Chain& chain, uint64_t seed);

// Values are in the given spans. Workspaces are overwritten, so that reading them later shows.
class HashStages : public ArenaStages {
 public:
  HashStages(const Chain& chain, uint64_t seed);

  absl::Status Begin(DeviceSpan input, void* stream) override;
  absl::Status Forward(const ForwardCall& call, const ForwardSpans& spans) override;
  absl::Status Backward(const BackwardCall& call, const BackwardSpans& spans) override;
  absl::Status End(DeviceSpan input_gradient, void* stream) override;

  const Digest& digest() const { return digest_; }  // of the last step

 private:
  const Chain& chain_;
  const uint64_t seed_;
  Digest digest_;
};

// The same computations on values that the stages own, like a framework's.
class FrameworkHashStages : public FrameworkStages {
 public:
  FrameworkHashStages(const Chain& chain, uint64_t seed);

  absl::Status Begin(void* stream) override;
  absl::Status Forward(const ForwardCall& call) override;
  absl::Status Backward(const BackwardCall& call) override;
  absl::Status End(void* stream) override;
  absl::Status CopyToHost(int l, PinnedSpan to, void* stream) override;
  absl::Status Release(int l) override;
  absl::Status CopyToDevice(int l, PinnedSpan from, void* stream) override;
  void Abandon() override;

  const Digest& digest() const { return stages_.digest(); }
  int64_t held_bytes() const;  // of values and gradients

 private:
  using Bytes = std::vector<std::byte>;
  DeviceSpan Resize(Bytes* bytes, int64_t size);
  DeviceSpan Input(int l);

  const Chain& chain_;
  HashStages stages_;
  std::vector<Bytes> values_;  // by value; each is accessed by one queue at a time
  std::vector<Bytes> gradients_;
  std::vector<bool> saved_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_HASH_STAGES_H_
