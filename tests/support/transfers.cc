#include "tests/support/transfers.h"

#include <algorithm>
#include <vector>

namespace stowage {
namespace {

// The values that an operation reads on the device.
std::vector<int> NeededBy(const Operation& operation) {
  if (operation.kind == OperationKind::kBackward) return {operation.stage - 1, operation.stage};
  return {operation.stage - 1};
}

int Below(int bound, std::mt19937* random) {
  return static_cast<int>((*random)() % static_cast<uint32_t>(bound));
}

}  // namespace

Schedule WithTransfers(const Chain& chain, const Schedule& schedule, double share,
                       std::mt19937* random) {
  const auto count = static_cast<int>(schedule.operations.size());
  // The operations to insert before each operation; the last entry is for the end.
  std::vector<std::vector<Operation>> before(static_cast<size_t>(count) + 1);
  std::vector<int> touched(static_cast<size_t>(chain.length()) + 2, -1);  // by value: by operation
  std::vector<bool> gone(touched.size(), false);                          // by value: dropped
  for (int i = 0; i < count; ++i) {
    const Operation& operation = schedule.operations[static_cast<size_t>(i)];
    for (const int value : NeededBy(operation)) {
      if (gone[static_cast<size_t>(value)]) continue;  // a backward that does not read it
      const bool fixed = value > 0 && chain.stage(value).no_offload;
      const int from = touched[static_cast<size_t>(value)] + 1;
      touched[static_cast<size_t>(value)] = i;
      if (fixed || from > i || static_cast<double>((*random)()) > share * 0x1p32) continue;
      int places[3] = {from + Below(i - from + 1, random), from + Below(i - from + 1, random),
                       from + Below(i - from + 1, random)};
      std::sort(places, places + 3);
      before[static_cast<size_t>(places[0])].push_back({OperationKind::kOffload, value});
      before[static_cast<size_t>(places[1])].push_back({OperationKind::kRelease, value});
      before[static_cast<size_t>(places[2])].push_back({OperationKind::kPrefetch, value});
    }
    if (operation.kind != OperationKind::kBackward) {
      touched[static_cast<size_t>(operation.stage)] = i;
      gone[static_cast<size_t>(operation.stage)] = false;
    }
    if (Discards(operation.kind)) gone[static_cast<size_t>(operation.stage) - 1] = true;
  }
  Schedule result;
  for (int i = 0; i < count; ++i) {
    const auto& inserted = before[static_cast<size_t>(i)];
    result.operations.insert(result.operations.end(), inserted.begin(), inserted.end());
    result.operations.push_back(schedule.operations[static_cast<size_t>(i)]);
  }
  return result;
}

}  // namespace stowage
