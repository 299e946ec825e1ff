// Stages whose values are a few bytes that depend on every byte that went into them: a value that
// was overwritten, dropped or not yet copied shows in all that comes after it.
#ifndef STOWAGE_TESTS_SUPPORT_HASH_STAGES_H_
#define STOWAGE_TESTS_SUPPORT_HASH_STAGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/agent/stages.h"
#include "solver/base/mutex.h"
#include "solver/model/chain.h"

namespace stowage {

// What each backward read and the last gradient: equal for two steps that did the same.
struct Digest {
  std::vector<uint64_t> backwards;  // by stage, from 1; 0: it did not run
  uint64_t input_gradient = 0;

  bool operator==(const Digest&) const = default;
};

// One step without any schedule: everything is kept.
Digest PlainStep(const Chain& chain, uint64_t seed);

// Values lie in the spans that it is given; workspaces are filled with what others must not read.
class HashStages : public Stages {
 public:
  HashStages(const Chain& chain, uint64_t seed);

  absl::Status Begin(DeviceSpan input, void* stream) override;
  absl::Status Forward(const ForwardCall& call) override;
  absl::Status Backward(const BackwardCall& call) override;
  absl::Status End(DeviceSpan input_gradient, void* stream) override;

  const Digest& digest() const { return digest_; }  // of the last step

 private:
  const Chain& chain_;
  const uint64_t seed_;
  Digest digest_;
};

// The same with values of its own.
class HeldHashStages : public HeldStages {
 public:
  HeldHashStages(const Chain& chain, uint64_t seed);

  absl::Status Begin(DeviceSpan input, void* stream) override;
  absl::Status Forward(const ForwardCall& call) override;
  absl::Status Backward(const BackwardCall& call) override;
  absl::Status End(DeviceSpan input_gradient, void* stream) override;
  absl::Status CopyToHost(int l, PinnedSpan to, void* stream) override;
  absl::Status Release(int l) override;
  absl::Status CopyToDevice(int l, PinnedSpan from, void* stream) override;
  void Abandon() override;

  const Digest& digest() const { return stages_.digest(); }
  int64_t held_bytes() const;

 private:
  using Bytes = std::vector<std::byte>;
  DeviceSpan Resize(Bytes* bytes, int64_t size);
  DeviceSpan Input(int l);

  const Chain& chain_;
  HashStages stages_;
  std::vector<Bytes> values_;  // each is read or written by one queue at a time
  std::vector<Bytes> gradients_;
  std::vector<bool> saved_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_HASH_STAGES_H_
