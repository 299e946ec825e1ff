// Measures how many bytes of a plan's blocks are alive at each instant of an execution, which may
// differ from program order.
#ifndef STOWAGE_TESTS_SUPPORT_METERED_DEVICE_H_
#define STOWAGE_TESTS_SUPPORT_METERED_DEVICE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "client/agent/plan.h"
#include "solver/base/mutex.h"
#include "tests/support/forwarding_device.h"

namespace stowage {

// Requires: one step of `plan`, on a device that runs work on its queues and not in the call.
class MeteredDevice final : public ForwardingDevice {
 public:
  MeteredDevice(const ArenaPlan* plan, Device* device) : ForwardingDevice(device), plan_(*plan) {
    begins_.resize(plan->commands.size());
    ends_.resize(plan->commands.size());
    for (size_t block = 0; block < plan->device.blocks.size(); ++block) Schedule(block);
  }

  int64_t max_bytes() {
    MutexLock lock(mutex_);
    return most_;
  }
  int64_t bytes() {
    MutexLock lock(mutex_);
    return alive_;
  }

  absl::Status Copy(Queue queue, DeviceSpan from, PinnedSpan to) override {
    return Metered(queue, Next(), [&] { return device_.Copy(queue, from, to); });
  }
  absl::Status Copy(Queue queue, PinnedSpan from, DeviceSpan to) override {
    return Metered(queue, Next(), [&] { return device_.Copy(queue, from, to); });
  }
  absl::Status Launch(Queue queue, DeviceWork work) override {
    const bool first = !begun_;
    begun_ = true;
    if (first) (void)Count(queue, &initial_, Change::kBegin);
    // The first and the last launch, Begin() and End() of the stages, are not commands.
    const size_t command = first ? plan_.commands.size() : Next();
    if (command == plan_.commands.size()) return device_.Launch(queue, std::move(work));
    return Metered(queue, command, [&] { return device_.Launch(queue, std::move(work)); });
  }

 private:
  // A block, and how many of the commands that end it have not ended yet.
  struct EndingBlock {
    int64_t bytes = 0;
    std::shared_ptr<int> left;
  };
  enum class Change { kBegin, kEnd };
  using Blocks = std::vector<EndingBlock>;

  // A block is alive from the start of its first command to the end of its last one. If the last is
  // a RELEASE, the block ends with the later of its copy and the computation before the RELEASE.
  void Schedule(size_t block) {
    const MemoryBlock& memory = plan_.device.blocks[block];
    const EndingBlock started{memory.bytes, nullptr};
    (static_cast<int>(block) == plan_.input ? initial_ : begins_[memory.begin]).push_back(started);
    const size_t last = memory.end - 1;
    if (last >= plan_.commands.size()) return;  // δ^0 outlives the step
    if (plan_.commands[last].kind != OperationKind::kRelease) {
      ends_[last].push_back({memory.bytes, std::make_shared<int>(1)});
      return;
    }
    const auto left = std::make_shared<int>(0);
    const auto wait_for = [&](size_t command) {
      ++*left;
      ends_[command].push_back({memory.bytes, left});
    };
    for (size_t i = last; i-- > 0;) {
      if (!IsCompute(plan_.commands[i].kind)) continue;
      wait_for(i);
      break;
    }
    for (size_t i = last; i-- > 0;) {
      const Command& command = plan_.commands[i];
      if (command.kind != OperationKind::kOffload || command.stage != plan_.commands[last].stage) {
        continue;
      }
      wait_for(i);
      break;
    }
  }

  // The next command that the executor enqueues; it enqueues no RELEASE.
  size_t Next() {
    while (next_ < plan_.commands.size() && plan_.commands[next_].kind == OperationKind::kRelease) {
      ++next_;
    }
    return next_ < plan_.commands.size() ? next_++ : next_;
  }

  template <typename Enqueue>
  absl::Status Metered(Queue queue, size_t command, const Enqueue& enqueue) {
    (void)Count(queue, &begins_[command], Change::kBegin);
    absl::Status status = enqueue();
    (void)Count(queue, &ends_[command], Change::kEnd);
    return status;
  }

  absl::Status Count(Queue queue, Blocks* blocks, Change change) {
    return device_.Launch(queue, [this, blocks, change](void*) {
      MutexLock lock(mutex_);
      for (const EndingBlock& block : *blocks) {
        if (change == Change::kEnd && --*block.left > 0) continue;
        alive_ += change == Change::kBegin ? block.bytes : -block.bytes;
      }
      most_ = std::max(most_, alive_);
      return absl::OkStatus();
    });
  }

  const ArenaPlan& plan_;
  Blocks initial_;
  std::vector<Blocks> begins_;  // by command
  std::vector<Blocks> ends_;
  bool begun_ = false;  // the launch before the first command has come
  size_t next_ = 0;
  Mutex mutex_;
  int64_t alive_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t most_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_METERED_DEVICE_H_
