// The three in-order queues that run a schedule: compute, copies to the host, copies to the device
// (one queue for both with half_duplex). Computes the start and end of each operation.
// Source: solver/README.md, "Time". Ignores memory. Requires a valid schedule (MemoryWalk).
#ifndef STOWAGE_SOLVER_SIMULATOR_QUEUES_H_
#define STOWAGE_SOLVER_SIMULATOR_QUEUES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// Borrows the chain and the platform. Not thread-safe.
class Queues {
 public:
  struct Span {
    double start_seconds = 0;
    double end_seconds = 0;
    // The operation of another queue that determines the start; nullopt: its own queue does.
    std::optional<size_t> waits_for;
  };

  Queues(const Chain& chain, const Platform& platform);

  // What the duration of a forward or backward depends on besides its stage.
  struct Duration {
    double entry_seconds = 0;  // added: the cost of entering graph mode
    bool replay = false;       // see IsReplay()
  };

  // Runs the next operation of a valid schedule and returns its times in seconds. O(1).
  Span Run(const Operation& operation, const Duration& duration);
  Span Run(const Operation& operation) { return Run(operation, Duration{}); }

  double compute_seconds() const { return compute_seconds_; }  // of all forwards and backwards
  double makespan_seconds() const { return makespan_; }

 private:
  // A time and the operation that ends at it; nullopt: the start of the schedule.
  struct Event {
    double seconds = 0;
    std::optional<size_t> operation;
  };
  struct Value {
    bool saved = false;   // live as ā^l, not a^l
    int save_option = 0;  // of ā^l
    Event offloaded;      // end of its latest OFFLOAD
    Event prefetched;     // end of its latest PREFETCH
  };

  Span Compute(const Operation& operation, const Duration& duration);
  Span Offload(int l);
  Span Release(int l);
  Span Prefetch(int l);
  Span Transfer(Event& queue, const Event& ready, double seconds);
  int64_t Bytes(int l) const;

  const Chain& chain_;
  const Platform& platform_;
  std::vector<Value> values_;  // 0..L+1
  size_t index_ = 0;           // of the next operation
  Event compute_;              // end of the last compute operation
  Event to_host_;
  Event to_device_;
  Event released_;  // end of the last RELEASE; they complete in order
  double compute_seconds_ = 0;
  double makespan_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SIMULATOR_QUEUES_H_
