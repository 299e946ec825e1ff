#include "tests/support/linked_chains.h"

#include <algorithm>

#include "rapidcheck.h"
#include "solver/bounds/memory_range.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

double DrawRate() {
  return static_cast<double>(DrawBetween(1, 32)) / (*rc::gen::arbitrary<bool>() ? 8 : 1);
}

}  // namespace

int64_t DrawBetween(int64_t least, int64_t most) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, most + 1));
}

Chain DrawLinkedChain(int max_stages) {
  Chain chain = *SmallChains(max_stages);
  const int64_t more = *rc::gen::arbitrary<bool>() ? 15 : 0;
  for (Stage& stage : chain.stages) {
    stage.no_offload = DrawBetween(0, 7) == 0;
    stage.saved_bytes += DrawBetween(0, more);
    if (DrawBetween(0, 2) == 0) stage.forward_overhead_bytes += DrawBetween(0, more);
  }
  RaiseSaveOverheads(&chain);
  return chain;
}

Platform DrawLinkedPlatform(const Chain& chain) {
  const int64_t least = std::max<int64_t>(1, FloorOfMemory(chain).bytes - 1);
  const int64_t most = std::max(least, StoreAllPeakBytes(chain) + 1);
  Platform platform =
      Memory(DrawBetween(least, *rc::gen::arbitrary<bool>() ? most : least + (most - least) / 3));
  platform.offload_bytes_per_second = DrawRate();
  if (*rc::gen::arbitrary<bool>()) platform.prefetch_bytes_per_second = DrawRate();
  return platform;
}

}  // namespace stowage
