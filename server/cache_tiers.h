// The tiers of the cache below memory, as the options want them.
#ifndef STOWAGE_SERVER_CACHE_TIERS_H_
#define STOWAGE_SERVER_CACHE_TIERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/service/origin.h"
#include "server/cache/answer_cache.h"
#include "server/cache/cache_tier.h"
#include "server/cache/solve_leases.h"
#include "server/cache/tiers/guarded_leases.h"
#include "server/cache/tiers/guarded_tier.h"
#include "server/events/observer.h"
#include "server/observe/gauges.h"
#include "server/server_options.h"
#include "solver/model/answer.h"

namespace stowage {

class RedisTier;

// Without a store the server runs without the tier.
struct ServerTier {
  std::string name;
  Origin::Source source;
  int64_t limit_bytes = 0;
  AnswerSource* answers = nullptr;  // the store's, behind its guard, where those are the server's
  RedisTier* redis = nullptr;       // likewise, of the shared cache
  std::unique_ptr<GuardedTier> store = nullptr;
  std::unique_ptr<GuardedLeases> leases = nullptr;  // of a tier that servers share
};

// Which tiers there are is decided at the start; the stores are thread-safe.
class CacheTiers {
 public:
  // Borrows the observer, to which a tier that cannot be opened is reported.
  CacheTiers(const ServerOptions& options, Observer& observer);

  // For AnswerCache: those with a store, the quickest first.
  std::vector<NamedTier> in_use() const;
  SolveLeases* leases() const;  // null: no tier has leases
  // Copies the answers that --warm-up names into the shared cache, and logs how that went. Blocks
  // for --warm-up-time at most, and the time of a call; until then a signal to stop ends it.
  void WarmUp(const ServerOptions& options) const;
  bool has_shared() const { return shared().redis != nullptr; }
  // Goes on with the shared cache of `options`, once that has answered. Calls under way end with
  // the former one. Blocks for five seconds at most, and the look-up of a name. Errors: those of
  // RedisCluster, behind "--shared-cache: ", and nothing changes. Requires: has_shared().
  absl::Status ReplaceShared(const ServerOptions& options) const;
  // Of all, with what `cache` counted of those in use.
  std::vector<TierGauges> gauges(const AnswerCache& cache) const;

 private:
  const ServerTier& shared() const { return tiers_.back(); }

  std::vector<ServerTier> tiers_;  // the quickest first
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_TIERS_H_
