// Walks a schedule in program order and keeps account of every value: whether each operation is
// valid and what is on the device and on the host. Knows nothing of time.
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
  // `numbers`: what stages and values are called in errors, where the chain is an Execution's;
  // borrowed. Null: as they are.
  MemoryWalk(const Chain& chain, const Platform& platform,
             const std::vector<int>* numbers = nullptr);

  // Executes one operation. INVALID_ARGUMENT says what it lacks ("value 3 is not on device"),
  // without naming the operation; the walk must not go on after that. O(1).
  absl::Status Execute(const Operation& operation);

  // What is left to say past the last operation: δ^0 must be there. Then nothing else is: BACKWARD
  // l drops value l, BACKWARD 1 the input, too, and no forward of l may follow it.
  absl::Status Finish() const;

  // Of the operation executed last, in bytes: all that was on the device before it, what it added
  // and its overhead; and what was on the host, its own copy included.
  int64_t memory_bytes() const { return memory_bytes_; }
  int64_t host_bytes() const { return host_bytes_; }

  // What would take device memory while `operation` runs next, in no order. Requires: it is valid.
  std::vector<Holding> HoldingsDuring(const Operation& operation) const;

 private:
  enum class Form : uint8_t { kNone, kOutput, kSaved };  // absent, a^l or ā^l
  enum class Place : uint8_t {
    kDevice,
    kDeviceAndHost,  // an OFFLOAD that no RELEASE has answered
    kHost,
  };
  struct Value {
    Form form = Form::kNone;
    Place place = Place::kDevice;
    bool forward_done = false;  // its stage has run forward at least once
  };

  absl::Status Forward(OperationKind kind, int l);
  absl::Status CheckForward(OperationKind kind, int l) const;
  absl::Status Backward(int l);
  absl::Status CheckBackward(int l) const;
  absl::Status Offload(int l);
  absl::Status Release(int l);
  absl::Status Prefetch(int l);

  absl::Status NeedOnDevice(int l) const;
  absl::Status MayDrop(int l) const;
  absl::string_view Whereabouts(int l) const;  // "was never computed or is dropped"
  bool OnDevice(int l) const;
  int64_t Bytes(int l) const;  // of value l as it is live now
  int Number(int l) const { return numbers_ == nullptr ? l : (*numbers_)[static_cast<size_t>(l)]; }
  void Drop(int l);
  // Accounts for an operation that needs `extra_bytes` beyond what is on the device.
  void Account(int64_t extra_bytes);

  const Chain& chain_;
  const Platform& platform_;
  const std::vector<int>* const numbers_;
  std::vector<Value> values_;  // 0..L+1
  int gradient_;               // g: δ^g is held, backwards above g are done; L+1 before the loss's
  int64_t device_bytes_;       // after the last operation
  int64_t host_after_bytes_ = 0;
  int64_t memory_bytes_ = 0;
  int64_t host_bytes_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SIMULATOR_MEMORY_WALK_H_
