// A device that knows the plan whose commands it is given, and notes how much of what the plan
// places is alive at any instant of the execution, not only in program order.
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

// For one step of a plan that places values, on a device whose work runs when its turn comes.
class MeteredDevice final : public ForwardingDevice {
 public:
  MeteredDevice(const Plan* plan, Device* device) : ForwardingDevice(device), plan_(*plan) {
    begins_.resize(plan->commands.size());
    ends_.resize(plan->commands.size());
    for (size_t block = 0; block < plan->device.blocks.size(); ++block) Schedule(block);
  }

  int64_t most_bytes() {
    MutexLock lock(mutex_);
    return most_;
  }
  int64_t bytes() {
    MutexLock lock(mutex_);
    return alive_;
  }

  absl::Status Copy(Queue queue, DeviceSpan from, PinnedSpan to) override {
    return Noted(queue, Next(), [&] { return device_.Copy(queue, from, to); });
  }
  absl::Status Copy(Queue queue, PinnedSpan from, DeviceSpan to) override {
    return Noted(queue, Next(), [&] { return device_.Copy(queue, from, to); });
  }
  absl::Status Launch(Queue queue, Work work) override {
    const bool first = !begun_;
    begun_ = true;
    if (first) (void)Note(queue, &initial_, +1);
    // Its beginning and its end are no commands.
    const size_t command = first ? plan_.commands.size() : Next();
    if (command == plan_.commands.size()) return device_.Launch(queue, std::move(work));
    return Noted(queue, command, [&] { return device_.Launch(queue, std::move(work)); });
  }

 private:
  // A block, and how many of the commands that its end waits for are still to end.
  struct Share {
    int64_t bytes = 0;
    std::shared_ptr<int> left;
  };
  using Shares = std::vector<Share>;

  // The block comes alive with its first command and ends with its last one; one that a RELEASE
  // ends does so when its copy and what was computed before it have ended.
  void Schedule(size_t block) {
    const MemoryBlock& memory = plan_.device.blocks[block];
    const Share share{memory.bytes, nullptr};
    (static_cast<int>(block) == plan_.input ? initial_ : begins_[memory.begin]).push_back(share);
    const size_t last = memory.end - 1;
    if (last >= plan_.commands.size()) return;  // δ^0 stays
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

  // The next command that is issued; RELEASEs are not.
  size_t Next() {
    while (next_ < plan_.commands.size() && plan_.commands[next_].kind == OperationKind::kRelease) {
      ++next_;
    }
    return next_ < plan_.commands.size() ? next_++ : next_;
  }

  template <typename Enqueue>
  absl::Status Noted(Queue queue, size_t command, const Enqueue& enqueue) {
    (void)Note(queue, &begins_[command], +1);
    absl::Status status = enqueue();
    (void)Note(queue, &ends_[command], -1);
    return status;
  }

  absl::Status Note(Queue queue, Shares* shares, int sign) {
    return device_.Launch(queue, [this, shares, sign](void*) {
      MutexLock lock(mutex_);
      for (const Share& share : *shares) {
        if (sign < 0 && --*share.left > 0) continue;
        alive_ += sign * share.bytes;
      }
      most_ = std::max(most_, alive_);
      return absl::OkStatus();
    });
  }

  const Plan& plan_;
  Shares initial_;
  std::vector<Shares> begins_;  // by command
  std::vector<Shares> ends_;
  bool begun_ = false;
  size_t next_ = 0;
  Mutex mutex_;
  int64_t alive_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t most_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_METERED_DEVICE_H_
