#include "tests/gpu/figures/batch_search.h"

#include <algorithm>

#include "solver/base/status_macros.h"

namespace stowage {

absl::StatusOr<int> LargestBatch(const BatchSearch& search,
                                 const std::function<absl::StatusOr<bool>(int batch)>& trains) {
  // Invariant: `good` trains (or is 0), `bad` does not (or exceeds the limit).
  int good = 0;
  int bad = search.most + 1;
  const auto step = [&] { return std::max(1, static_cast<int>(good * search.resolution)); };
  for (int batch = search.first; bad - good > step();) {
    ASSIGN_OR_RETURN(const bool does, trains(batch));
    (does ? good : bad) = batch;
    if (good == 0) return 0;
    // Doubles until a batch fails or twice the batch would exceed the limit; then bisects.
    const bool doubles = bad > search.most && good <= search.most / 2;
    batch = doubles ? 2 * good : good + (bad - good) / 2;
    if (!doubles && bad > search.most) batch = search.most;
  }
  return good;
}

}  // namespace stowage
