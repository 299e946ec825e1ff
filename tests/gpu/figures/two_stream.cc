#include "tests/gpu/figures/two_stream.h"

namespace stowage {
namespace {

bool Leaves(const Chain& chain, int value) {
  if (value < 0 || value >= chain.length()) return false;
  const bool may = value == 0 || !chain.stage(value).no_offload;
  return may && (value == 0 ? chain.input_bytes : chain.saved_bytes(value)) > 0;
}

}  // namespace

Schedule TwoStreamSchedule(const Chain& chain) {
  Schedule schedule;
  const auto add = [&schedule](OperationKind kind, int l) {
    schedule.operations.push_back({kind, l});
  };
  const int loss = chain.length() + 1;
  for (int l = 1; l <= loss; ++l) {
    add(OperationKind::kForwardSave, l);
    if (Leaves(chain, l - 2)) add(OperationKind::kRelease, l - 2);
    if (Leaves(chain, l - 1)) add(OperationKind::kOffload, l - 1);
  }
  for (int l = loss; l >= 1; --l) {
    if (Leaves(chain, l - 2)) add(OperationKind::kPrefetch, l - 2);
    add(OperationKind::kBackward, l);
  }
  return schedule;
}

}  // namespace stowage
