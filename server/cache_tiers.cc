#include "server/cache_tiers.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/cache/tiers/redis_tier.h"
#include "server/cache/tiers/sqlite_tier.h"
#include "server/observe/log.h"
#include "server/redis/cluster.h"
#include "server/warm_up.h"
#include "solver/base/prefixed.h"

namespace stowage {
namespace {

// Without a store where there is none, or where it cannot be opened, which is reported.
ServerTier OpenDisk(const ServerOptions& options, Observer& observer) {
  ServerTier disk = {.name = "disk", .source = Origin::Source::kDiskCache};
  if (options.cache_dir.empty()) return disk;
  absl::StatusOr<std::unique_ptr<SqliteTier>> tier =
      SqliteTier::Open(options.cache_dir, {options.disk_bytes, options.client_cache_share});
  if (!tier.ok()) {
    observer.StoreFailed(tier.status());
    return disk;
  }
  if (const absl::Status opening = (*tier)->opening(); !opening.ok()) observer.StoreFailed(opening);
  disk.answers = tier->get();
  disk.store =
      std::make_unique<GuardedTier>(*std::move(tier), GuardOptions{.name = disk.name}, observer);
  disk.limit_bytes = options.disk_bytes;
  return disk;
}

std::shared_ptr<RedisCluster> ClusterAt(const RedisUrl& url, const RedisLoginFiles& files) {
  return std::make_shared<RedisCluster>(url.seeds, [files] { return ReadRedisLogin(files); });
}

std::unique_ptr<RedisTier> RedisAt(const RedisUrl& url, const RedisLoginFiles& files,
                                   const RedisTierOptions& options) {
  return std::make_unique<RedisTier>(ClusterAt(url, files), options);
}

// Nobody takes the signals before the server has started.
bool IsToldToStop() {
  sigset_t pending;
  return sigpending(&pending) == 0 &&
         (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

// Connects with its first call.
ServerTier OpenShared(const ServerOptions& options, Observer& observer) {
  ServerTier shared = {.name = "shared", .source = Origin::Source::kSharedCache};
  if (options.shared_cache.seeds.empty()) return shared;
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double>(options.shared_cache_timeout_seconds));
  // A first call connects, which may take longer than is waited for; the next ones do not.
  const RedisTierOptions patience = {.timeout = std::max(timeout, RedisTierOptions().timeout)};
  std::unique_ptr<RedisTier> tier =
      RedisAt(options.shared_cache, options.shared_cache_login, patience);
  const GuardOptions guard = {.name = shared.name,
                              .timeout = timeout,
                              .breaker = {.failures = 5, .pause = std::chrono::seconds(1)}};
  shared.redis = tier.get();
  shared.store = std::make_unique<GuardedTier>(std::move(tier), guard, observer);
  shared.leases = std::make_unique<GuardedLeases>(*shared.store, *shared.redis);
  return shared;
}

}  // namespace

CacheTiers::CacheTiers(const ServerOptions& options, Observer& observer) {
  tiers_.push_back(OpenDisk(options, observer));
  tiers_.push_back(OpenShared(options, observer));
}

std::vector<NamedTier> CacheTiers::in_use() const {
  std::vector<NamedTier> in_use;
  for (const ServerTier& tier : tiers_) {
    if (tier.store != nullptr) in_use.push_back({tier.name, tier.source, tier.store.get()});
  }
  return in_use;
}

SolveLeases* CacheTiers::leases() const {
  for (const ServerTier& tier : tiers_) {
    if (tier.leases != nullptr) return tier.leases.get();
  }
  return nullptr;
}

void CacheTiers::WarmUp(const ServerOptions& options) const {
  const WarmUpOptions& wanted = options.warm_up;
  if (!wanted.from_disk && wanted.from.seeds.empty()) return;
  AnswerSource* const disk = tiers_.front().answers;
  if (wanted.from_disk && disk == nullptr) return;  // it could not be opened, as has been reported
  const RedisTierOptions patience = {.timeout = std::chrono::seconds(5)};  // nobody waits yet
  const std::unique_ptr<RedisTier> other = RedisAt(wanted.from, wanted.login, patience);
  const std::unique_ptr<RedisTier> shared =
      RedisAt(options.shared_cache, options.shared_cache_login, patience);
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::duration<double> most(wanted.max_seconds);
  const auto is_over = [&] {
    return std::chrono::steady_clock::now() - begin >= most || IsToldToStop();
  };
  const WarmUpResult result = stowage::WarmUp(wanted.from_disk ? *disk : *other, *shared, is_over);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  std::vector<LogField> fields = {{"count", absl::StrCat(result.copied)},
                                  {"present", absl::StrCat(result.present)},
                                  {"seconds", absl::StrFormat("%.1f", taken.count())}};
  if (result.is_whole) return Log(LogLevel::kInfo, "warmed_up", fields);
  fields.emplace_back("message", result.status.ok() ? "--warm-up-time is over, or the server stops"
                                                    : std::string(result.status.message()));
  Log(LogLevel::kWarning, "warmed_up_in_part", fields);
}

absl::Status CacheTiers::ReplaceShared(const ServerOptions& options) const {
  constexpr std::chrono::seconds kMostWait{5};
  std::shared_ptr<RedisCluster> cluster =
      ClusterAt(options.shared_cache, options.shared_cache_login);
  const absl::Status answers = cluster->Masters(RedisCluster::Clock::now() + kMostWait).status();
  if (answers.ok()) shared().redis->SetCluster(std::move(cluster));
  return Prefixed("--shared-cache", answers);
}

std::vector<TierGauges> CacheTiers::gauges(const AnswerCache& cache) const {
  std::vector<TierGauges> gauges;
  const std::vector<TierStats> counted = cache.tier_stats();
  for (const ServerTier& tier : tiers_) {
    TierGauges& its = gauges.emplace_back();
    its.stats.name = tier.name;
    its.limit_bytes = tier.limit_bytes;
    its.in_use = tier.store != nullptr;
    if (!its.in_use) continue;
    its.guard = tier.store->guard_stats();
    its.stats = *absl::c_find_if(
        counted, [&tier](const TierStats& stats) { return stats.name == tier.name; });
  }
  return gauges;
}

}  // namespace stowage
