// Replays a schedule in program order and tracks the state of every value. Checks that each
// operation is valid and counts the bytes on the device and on the host. Independent of time:
// queues.h assigns times.
// Source: solver/README.md, the table of operations, "Errors", "Memory" and "Host memory".
#ifndef STOWAGE_SOLVER_SIMULATOR_MEMORY_WALK_H_
#define STOWAGE_SOLVER_SIMULATOR_MEMORY_WALK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "solver/model/chain.h"
#include "solver/model/explanation.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// Starts with a^0 on the device. Borrows the chain and the platform. Not thread-safe.
// Requires: Violations(chain) and Violations(platform) are empty; every operation is eager.
class MemoryWalk {
 public:
  // `numbers`: for the chain of an Execution, the original stage numbers that error messages use;
  // borrowed. Null: the chain's own numbers.
  MemoryWalk(const Chain& chain, const Platform& platform,
             const std::vector<int>* numbers = nullptr);

  // Executes one operation. O(1).
  // Errors: INVALID_ARGUMENT states the problem ("value 3 is not on device") without naming the
  // operation. No further call is allowed after an error.
  absl::Status Execute(const Operation& operation);

  // Checks the state after the last operation: δ^0 must exist. Nothing else can be left then,
  // because BACKWARD l drops value l, BACKWARD 1 also drops the input, and no forward of l may
  // follow it. Errors: INVALID_ARGUMENT.
  absl::Status Finish() const;

  // Bytes during the last operation. Device: what was there before, plus what the operation adds
  // and its overhead. Host: all copies, that of the operation included.
  int64_t memory_bytes() const { return memory_bytes_; }
  int64_t host_bytes() const { return host_bytes_; }
  // Whether one of them exceeds the platform's.
  bool IsOverLimit() const {
    return memory_bytes_ > platform_.memory_bytes ||
           (platform_.host_memory_bytes > 0 && host_bytes_ > platform_.host_memory_bytes);
  }
  // In which the last forward of stage l saved it; 0 where it did not.
  int save_option(int l) const { return values_[l].save_option; }

  // The device memory by owner while `operation` runs next, unordered. O(stages).
  // Requires: `operation` is valid.
  std::vector<Holding> HoldingsDuring(const Operation& operation) const;
  // The sums of these holdings by kind. O(1). Requires: `operation` is valid.
  MemoryByKind BytesDuring(const Operation& operation) const;

 private:
  enum class Form : uint8_t { kNone, kOutput, kSaved };  // absent, a^l or ā^l
  enum class Place : uint8_t {
    kDevice,
    kDeviceAndHost,  // after OFFLOAD, before RELEASE
    kHost,
  };
  struct Value {
    Form form = Form::kNone;
    Place place = Place::kDevice;
    bool forward_done = false;  // its stage has run forward at least once
    int8_t save_option = 0;     // in form kSaved
  };

  absl::Status Forward(const Operation& operation);
  absl::Status CheckForward(OperationKind kind, int l) const;
  absl::Status CheckSaveOption(const Operation& operation) const;
  absl::Status Backward(int l);
  absl::Status CheckBackward(int l) const;
  absl::Status Offload(int l);
  absl::Status Release(int l);
  absl::Status Prefetch(int l);

  absl::Status NeedOnDevice(int l) const;
  absl::Status MayDrop(int l) const;
  // Completes "it ...": "was never computed", "was dropped" or "is on the host".
  absl::string_view Whereabouts(int l) const;
  bool OnDevice(int l) const;
  int64_t Bytes(int l) const;  // of value l in its current form
  // As error messages name them: the loss as "the loss", "value 28 (the loss)".
  std::string StageText(int l) const;
  std::string ValueText(int l) const;
  std::string BackwardText(int l) const;
  int Number(int l) const { return numbers_ == nullptr ? l : (*numbers_)[static_cast<size_t>(l)]; }
  void Drop(int l);
  // Counts the bytes of value l as taken or freed on the device.
  void Take(int l);
  void Free(int l);
  // Sets memory_bytes_ for an operation that needs `extra_bytes` beyond what is on the device.
  void Account(int64_t extra_bytes);

  const Chain& chain_;
  const Platform& platform_;
  const std::vector<int>* const numbers_;
  std::vector<Value> values_;  // 0..L+1
  int gradient_;               // g: BACKWARD g is next and δ^g is held; L+1 at first
  int64_t device_bytes_;       // after the last operation
  int64_t saved_bytes_ = 0;    // the part of it that values in form kSaved take
  // After the last operation. A PREFETCH still counts in host_bytes_ while it runs.
  int64_t host_after_bytes_ = 0;
  int64_t memory_bytes_ = 0;
  int64_t host_bytes_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SIMULATOR_MEMORY_WALK_H_
