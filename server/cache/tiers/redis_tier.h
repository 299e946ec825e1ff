// The shared cache: answers that several servers keep in a Redis, or a Redis Cluster.
//
// Each answer is a hash under "stowage:VERSION:{KEY}", KEY being its cache key in hex, which
// contains the solver's version, and VERSION that of its encoding: servers of different releases
// share what both can read. The answer carries a checksum. It ends after a time to live; before
// that the cluster evicts what has not been used longest (maxmemory-policy allkeys-lru).
//
// The lease of a solve is a hash under the same key with ":lease" behind it, by the clock of its
// node. Replication is asynchronous: a failover may lose an answer or a lease.
#ifndef STOWAGE_SERVER_CACHE_TIERS_REDIS_TIER_H_
#define STOWAGE_SERVER_CACHE_TIERS_REDIS_TIER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cache/cache_tier.h"
#include "server/cache/solve_leases.h"
#include "server/redis/cluster.h"
#include "solver/base/mutex.h"

namespace stowage {

struct RedisTierOptions {
  std::chrono::milliseconds timeout{250};  // of each call of the tier
  std::chrono::hours time_to_live{24 * 30};
  std::chrono::milliseconds lease{3000};
};

// How much the cluster holds is the cluster's to say: stats() are empty. Thread-safe.
class RedisTier final : public CacheTier,
                        public AnswerSource,
                        public AnswerTarget,
                        public SolveLeases {
 public:
  explicit RedisTier(std::shared_ptr<RedisCluster> cluster, const RedisTierOptions& options = {})
      : options_(options), cluster_(std::move(cluster)) {}

  // Calls that begin from now on go to this one. Those under way keep the old one until they end.
  void SetCluster(std::shared_ptr<RedisCluster> cluster);

  absl::StatusOr<CachedAnswerPtr> Get(const Fingerprint& key) override;
  absl::Status Put(CachedAnswerPtr cached) override;
  absl::StatusOr<int64_t> Remove(const Fingerprint& rounded) override;
  CacheStats stats() const override { return {}; }
  // In no order; an answer that moves to another node meanwhile may be left out, or come twice.
  absl::Status Visit(absl::FunctionRef<bool(CachedAnswerPtr)> visit) override;
  absl::StatusOr<bool> PutIfAbsent(CachedAnswerPtr cached) override;

  std::chrono::milliseconds duration() const override { return options_.lease; }
  absl::StatusOr<SolveLease> Take(const Fingerprint& key) override;
  absl::StatusOr<SolveLease> Look(const Fingerprint& key) override;
  absl::StatusOr<bool> Renew(const Fingerprint& key, int64_t token, double fraction) override;
  absl::Status End(const Fingerprint& key, int64_t token, bool is_done) override;
  LeaseStats lease_stats() const override;

 private:
  RedisCluster::Clock::time_point Deadline() const;
  std::shared_ptr<RedisCluster> Cluster() const;
  absl::StatusOr<int64_t> Store(const CachedAnswer& cached, absl::string_view how);
  absl::StatusOr<bool> VisitNode(const RedisNode& node,
                                 absl::FunctionRef<bool(CachedAnswerPtr)> visit);
  absl::StatusOr<SolveLease> Ask(const Fingerprint& key, absl::string_view how);
  absl::StatusOr<int64_t> Unlink(absl::string_view key);

  const RedisTierOptions options_;
  mutable Mutex mutex_;
  std::shared_ptr<RedisCluster> cluster_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int64_t> taken_ = 0;
  std::atomic<int64_t> taken_over_ = 0;
  std::atomic<int64_t> waited_ = 0;
  std::atomic<int64_t> lost_ = 0;
  std::atomic<int64_t> refused_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_TIERS_REDIS_TIER_H_
