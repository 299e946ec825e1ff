#include "client/agent/waits.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace stowage {
namespace {

constexpr size_t kNoCommand = SIZE_MAX;

// Adds the waits of solver/README.md, "Time", and those of PREFETCHes that still read host memory
// that an OFFLOAD reuses. A wait that others imply is left out, by vector clocks:
//   clocks_[q][r]  the commands of queue r numbered below it have ended before the next command of
//                  queue q starts
//   ended_[i]      clocks_ of command i's queue once command i has ended
// So command i of queue r needs a wait on queue q only if clocks_[q][r] <= i; after the wait,
// clocks_[q] = max(clocks_[q], ended_[i]) elementwise.
class WaitBuilder {
 public:
  WaitBuilder(int stages, const Region& host, std::vector<Command>& commands)
      : host_(host),
        commands_(commands),
        offloads_(static_cast<size_t>(stages) + 2, kNoCommand),
        prefetches_(offloads_) {
    ended_.reserve(commands.size());
  }

  void AddAll() {
    for (size_t index = 0; index < commands_.size(); ++index) {
      AddWaitsOf(index);
      const Queue queue = commands_[index].queue;
      ClockOf(queue)[static_cast<size_t>(queue)] = index + 1;
      ended_.push_back(ClockOf(queue));
    }
  }

 private:
  using Clock = std::array<size_t, kQueues>;  // by queue

  void AddWaitsOf(size_t index) {
    const Command& command = commands_[index];
    const int l = command.stage;
    switch (command.kind) {
      case OperationKind::kOffload:
        WaitFor(last_compute_, index);
        WaitFor(prefetches_[l], index);
        WaitForReadersOf(command.host, index);
        offloads_[l] = index;
        return;
      case OperationKind::kRelease:
        WaitFor(offloads_[l], index);
        last_release_ = index;
        return;
      case OperationKind::kPrefetch:
        WaitFor(last_compute_, index);
        WaitFor(last_release_, index);
        prefetches_[l] = index;
        all_prefetches_.push_back(index);
        return;
      case OperationKind::kBackward:
        WaitFor(prefetches_[l], index);
        break;
      default:
        prefetches_[l] = kNoCommand;  // a new value, which no prefetch has written
        break;
    }
    WaitFor(prefetches_[l - 1], index);
    last_compute_ = index;
  }

  void WaitFor(size_t other, size_t index) {
    if (other == kNoCommand) return;
    Command& command = commands_[index];
    Clock& clock = ClockOf(command.queue);
    if (clock[static_cast<size_t>(commands_[other].queue)] > other) return;
    command.waits.push_back(other);
    commands_[other].awaited = true;
    for (size_t queue = 0; queue < kQueues; ++queue) {
      clock[queue] = std::max(clock[queue], ended_[other][queue]);
    }
  }

  // Waits for the latest PREFETCH that may still read where OFFLOAD `index` writes. That one ends
  // after the earlier ones, which are on its queue.
  void WaitForReadersOf(int host, size_t index) {
    const auto begin = [this](int block) {
      return host_.layout.offsets[static_cast<size_t>(block)];
    };
    const auto end = [this, &begin](int block) {
      return begin(block) + host_.blocks[static_cast<size_t>(block)].bytes;
    };
    const Clock& clock = ClockOf(commands_[index].queue);
    // From the latest backwards: the first that has ended ends the search, too.
    for (auto other = all_prefetches_.rbegin(); other != all_prefetches_.rend(); ++other) {
      const Command& reader = commands_[*other];
      if (clock[static_cast<size_t>(reader.queue)] > *other) return;
      if (begin(reader.host) < end(host) && begin(host) < end(reader.host)) {
        return WaitFor(*other, index);
      }
    }
  }

  Clock& ClockOf(Queue queue) { return clocks_[static_cast<size_t>(queue)]; }

  const Region& host_;
  std::vector<Command>& commands_;
  std::array<Clock, kQueues> clocks_ = {};
  std::vector<Clock> ended_;      // by command
  std::vector<size_t> offloads_;  // by value: its latest OFFLOAD
  std::vector<size_t>
      prefetches_;  // by value: the PREFETCH that wrote it; kNoCommand: a forward did
  std::vector<size_t> all_prefetches_;
  size_t last_compute_ = kNoCommand;
  size_t last_release_ = kNoCommand;
};

}  // namespace

void AddWaits(int stages, const Region& host, std::vector<Command>* commands) {
  WaitBuilder(stages, host, *commands).AddAll();
}

}  // namespace stowage
