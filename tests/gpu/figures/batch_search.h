// The largest batch that trains, by doubling and then bisection.
#ifndef STOWAGE_TESTS_GPU_FIGURES_BATCH_SEARCH_H_
#define STOWAGE_TESTS_GPU_FIGURES_BATCH_SEARCH_H_

#include <functional>

#include "absl/status/statusor.h"

namespace stowage {

struct BatchSearch {
  int first = 1;          // tried first
  int most = 1 << 16;     // none above it is tried
  double resolution = 0;  // how much more may train than the answer, relatively; 0: nothing more
};

// A batch that trains while the next one by the resolution does not, or `most`; 0: the first does
// not. Takes it that what is smaller than a batch that trains does so, too, and asks about no batch
// twice. Errors: those of `trains`. Requires: 1 <= first <= most.
absl::StatusOr<int> LargestBatch(const BatchSearch& search,
                                 const std::function<absl::StatusOr<bool>(int batch)>& trains);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_FIGURES_BATCH_SEARCH_H_
