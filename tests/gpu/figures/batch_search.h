// Finds the largest batch that trains, by doubling and then bisection.
#ifndef STOWAGE_TESTS_GPU_FIGURES_BATCH_SEARCH_H_
#define STOWAGE_TESTS_GPU_FIGURES_BATCH_SEARCH_H_

#include <functional>

#include "absl/status/statusor.h"

namespace stowage {

struct BatchSearch {
  int first = 1;          // the first batch to try
  int most = 1 << 16;     // the largest batch to try
  double resolution = 0;  // relative; a batch larger than the result by more does not train
};

// Returns a batch that trains while one larger by the resolution does not, or `most`; 0 if the
// first does not train. Assumes that batches smaller than one that trains train, too. Calls
// `trains` at most once for a batch. Errors: those of `trains`. Requires: 1 <= first <= most.
absl::StatusOr<int> LargestBatch(const BatchSearch& search,
                                 const std::function<absl::StatusOr<bool>(int batch)>& trains);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_FIGURES_BATCH_SEARCH_H_
