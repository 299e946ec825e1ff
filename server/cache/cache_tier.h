// A place where answers wait for the next one who asks.
#ifndef STOWAGE_SERVER_CACHE_CACHE_TIER_H_
#define STOWAGE_SERVER_CACHE_CACHE_TIER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "server/cache/cache_keys.h"
#include "solver/model/answer.h"

namespace stowage {

// An answer with what it answers. Immutable, shared.
struct KnownAnswer {
  Answer answer;  // prediction and explanation are for the question of keys.exact, or unset
  QuestionKeys keys;
  bool explained = false;  // whether they are set
};
using KnownAnswerPtr = std::shared_ptr<const KnownAnswer>;

// The key under which an answer is kept: what it does not depend on plays no part.
inline const Fingerprint& KeyOf(const KnownAnswer& known) {
  const bool sizes = known.answer.outcome == Outcome::kInfeasible || known.answer.from_exact_sizes;
  return sizes ? known.keys.sizes : known.keys.rounded;
}

struct CacheTierStats {
  int64_t entries = 0;
  int64_t bytes = 0;
  int64_t evictions = 0;  // since the start
};

// Thread-safe.
class CacheTier {
 public:
  virtual ~CacheTier() = default;
  // Null: not there. Errors: DATA_LOSS for an entry that was corrupted, which is gone now;
  // UNAVAILABLE when the store does not work.
  virtual absl::StatusOr<KnownAnswerPtr> Get(const Fingerprint& key) = 0;
  // Replaces what is there; may drop it, or others. Errors: UNAVAILABLE.
  virtual absl::Status Put(KnownAnswerPtr known) = 0;
  virtual CacheTierStats stats() const = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_CACHE_TIER_H_
