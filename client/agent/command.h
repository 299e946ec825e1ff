// The commands of a plan and the blocks of memory that they use. Plain data.
#ifndef STOWAGE_CLIENT_AGENT_COMMAND_H_
#define STOWAGE_CLIENT_AGENT_COMMAND_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/agent/device.h"
#include "client/agent/layout.h"
#include "solver/model/schedule.h"

namespace stowage {

inline constexpr int kNoBlock = -1;

// One operation: command i is operation i of the schedule. A RELEASE is on the compute queue, where
// every later computation waits for its copy. The block numbers of device memory index
// ArenaPlan::device and are kNoBlock in a FrameworkPlan; kNoBlock also where a command has no such
// block.
struct Command {
  OperationKind kind = OperationKind::kForwardSave;
  int stage = 0;  // l, of Plan::chain()
  Queue queue = Queue::kCompute;
  std::vector<size_t> waits;  // commands of other queues that end before this one starts
  bool awaited = false;       // whether another command waits for this one
  int run = 0;                // of a forward: earlier forwards of its stage in this step
  bool repeated = false;      // of a forward with run 0: its stage is recomputed in this step
  bool replayed = false;      // of a forward that saves nothing: the stage's next one is a replay
  bool replay = false;        // of a forward: nobody reads its output, and without it takes less
  int save_option = 0;        // of a forward that saves; 0: the stage's own way
  int input = kNoBlock;       // of a computation: value l-1
  int value = kNoBlock;       // value l: written by a forward, read by a backward, copied
  int gradient = kNoBlock;    // of a backward: δ^l
  int input_gradient = kNoBlock;  // of a backward: δ^(l-1)
  int workspace = kNoBlock;       // of a computation: its overhead
  int host = kNoBlock;            // of a copy: a block of Plan::host
};

// Blocks of memory and their offsets.
struct Region {
  std::vector<MemoryBlock> blocks;  // moments are operations
  Layout layout;
  int64_t peak_bytes = 0;  // the most alive at once, sizes aligned
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_COMMAND_H_
