// Copies answers into the shared cache before a server is ready, so that a new Redis is not empty.
#ifndef STOWAGE_SERVER_WARM_UP_H_
#define STOWAGE_SERVER_WARM_UP_H_

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "server/cache/cache_tier.h"

namespace stowage {

struct WarmUpResult {
  int64_t copied = 0;
  bool is_whole = false;  // all answers were copied
  absl::Status status;    // UNAVAILABLE: why the copy ended early; OK: it did not, or time was up
};

// Copies the answers of `source` until it has no more, one of the two does not work, or the
// deadline.
WarmUpResult WarmUp(AnswerSource& source, CacheTier& target,
                    std::chrono::steady_clock::time_point deadline);

}  // namespace stowage

#endif  // STOWAGE_SERVER_WARM_UP_H_
