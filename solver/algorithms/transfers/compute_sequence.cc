#include "solver/algorithms/transfers/compute_sequence.h"

namespace stowage {
namespace {

// The state of value l while the sequence is replayed. Operations are given by index.
struct Value {
  int64_t bytes = 0;  // 0: not live, or nothing to move
  bool saved = false;
  int save_option = 0;
  int made = -1;     // the operation that produced it
  int touched = -1;  // its last use
  int gap = -1;      // its last gap
};

// Replays the sequence, counts memory as MemoryWalk does, and records the gaps.
class Walk {
 public:
  Walk(const Chain& chain, ComputeSequence* sequence)
      : chain_(chain),
        sequence_(*sequence),
        values_(static_cast<size_t>(chain.length()) + 2),
        device_bytes_(chain.input_bytes) {
    values_[0].bytes = chain.input_bytes;
  }

  void Run(int index) {
    const Operation& operation = sequence_.operations[static_cast<size_t>(index)];
    if (operation.kind == OperationKind::kBackward) {
      Backward(index, operation.stage);
    } else {
      Forward(index, operation);
    }
  }

 private:
  void Forward(int index, const Operation& operation) {
    const int l = operation.stage;
    Read(index, l - 1);
    const bool saves = Saves(operation.kind);
    const Stage& stage = chain_.stage(l);
    const int64_t bytes = saves ? stage.SavedBytes(operation.save_option) : stage.output_bytes;
    sequence_.need_bytes.push_back(device_bytes_ + (saves
                                                        ? stage.SaveNeedBytes(operation.save_option)
                                                        : stage.OutputNeedBytes()));
    values_[l] = {bytes, saves, operation.save_option, index, index, -1};
    device_bytes_ += bytes;
    if (Discards(operation.kind)) Drop(l - 1);
  }

  void Backward(int index, int l) {
    Read(index, l);
    Read(index, l - 1);
    const int64_t added = chain_.gradient_bytes(l - 1);
    sequence_.need_bytes.push_back(device_bytes_ + added +
                                   chain_.stage(l).BackwardOverheadBytes(values_[l].save_option));
    // δ^(l-1) replaces δ^l. ā^(l-1) stays for its own backward.
    device_bytes_ += added - chain_.gradient_bytes(l);
    Drop(l);
    if (!values_[l - 1].saved) Drop(l - 1);
  }

  // Records a gap if value l has not been used by the previous operation.
  void Read(int index, int l) {
    Value& value = values_[l];
    // Consecutive operations leave no time for a transfer.
    const bool waits = index > value.touched + 1;
    const bool may_leave = value.bytes > 0 && (l == 0 || !chain_.stage(l).no_offload);
    if (waits && may_leave) {
      sequence_.gaps.push_back({l, value.bytes, value.made, value.touched, index, value.gap});
      value.gap = static_cast<int>(sequence_.gaps.size()) - 1;
    }
    value.touched = index;
  }

  void Drop(int l) {
    device_bytes_ -= values_[l].bytes;
    values_[l].bytes = 0;
  }

  const Chain& chain_;
  ComputeSequence& sequence_;
  std::vector<Value> values_;  // 0..L+1
  int64_t device_bytes_;
};

}  // namespace

// need_bytes ends up with one entry for each operation, and gaps in the order of their ends.
void FindGaps(const Chain& chain, ComputeSequence* sequence) {
  sequence->need_bytes.clear();
  sequence->gaps.clear();
  Walk walk(chain, sequence);
  for (int i = 0; i < sequence->size(); ++i) walk.Run(i);
}

ComputeSequence SequenceOf(const Chain& chain, const Schedule& schedule) {
  ComputeSequence sequence;
  for (const Operation& operation : schedule.operations) {
    if (IsCompute(operation.kind)) sequence.operations.push_back(operation);
  }
  FindGaps(chain, &sequence);
  return sequence;
}

}  // namespace stowage
