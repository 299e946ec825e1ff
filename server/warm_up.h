// Copies answers into the shared cache before a server is ready, so that a new Redis is not empty.
#ifndef STOWAGE_SERVER_WARM_UP_H_
#define STOWAGE_SERVER_WARM_UP_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/cache/cache_tier.h"

namespace stowage {

struct WarmUpResult {
  int64_t copied = 0;
  int64_t present = 0;    // that the target had, and kept as they were
  bool is_whole = false;  // all answers were copied
  absl::Status status;    // UNAVAILABLE: why the copy ended early; OK: it did not, or was ended
};

// Copies the answers of `source` that `target` lacks, until there are no more, one of the two does
// not work, or `is_over`. Other servers may write to the target meanwhile: what they solve is
// newer.
WarmUpResult WarmUp(AnswerSource& source, AnswerTarget& target, absl::FunctionRef<bool()> is_over);

}  // namespace stowage

#endif  // STOWAGE_SERVER_WARM_UP_H_
