#include "server/cache/tiers/guarded_tier.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

constexpr size_t kReaders = 2;
constexpr std::chrono::seconds kRemoveTimeout{5};

}  // namespace

GuardedTier::GuardedTier(std::unique_ptr<CacheTier> tier, GuardOptions options, Observer& observer)
    : options_(std::move(options)),
      tier_(std::move(tier)),
      observer_(observer),
      breaker_(options_.breaker),
      stats_(tier_->stats()) {
  for (size_t i = 0; i < kReaders; ++i) threads_.emplace_back([this] { MakeCalls(); });
  threads_.emplace_back([this] { WriteBehind(); });
}

GuardedTier::~GuardedTier() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    added_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<CachedAnswerPtr> GuardedTier::Get(const Fingerprint& key) {
  if (!MayRead()) return CachedAnswerPtr();
  const Clock::time_point begin = Clock::now();
  absl::StatusOr<CachedAnswerPtr> cached =
      Ask<CachedAnswerPtr>(begin + options_.timeout, [this, key] {
        absl::StatusOr<CachedAnswerPtr> found = tier_->Get(key);
        if (!found.ok()) Refresh();  // it may have dropped what was damaged
        return found;
      });
  Report(cached.status());
  CountRead(Clock::now() - begin);
  return cached;
}

absl::Status GuardedTier::Put(CachedAnswerPtr cached) {
  MutexLock lock(mutex_);
  if (writes_.size() >= options_.max_writes) {
    ++guard_.dropped_writes;
    return absl::UnavailableError(absl::StrCat("the cache tier '", options_.name, "' has ",
                                               options_.max_writes,
                                               " answers to write; no more are stored"));
  }
  writes_.push_back(std::move(cached));
  added_.SignalAll();
  return absl::OkStatus();
}

// What waits to be written would come back, and so would what is being written.
absl::StatusOr<int64_t> GuardedTier::Remove(const Fingerprint& rounded) {
  const Clock::time_point deadline = Clock::now() + kRemoveTimeout;
  {
    MutexLock lock(mutex_);
    std::erase_if(writes_, [&rounded](const CachedAnswerPtr& cached) {
      return cached->keys.rounded == rounded;
    });
    if (hung_ == kReaders) return TooSlow();
    while (is_writing_) {
      if (!ended_.WaitUntil(mutex_, deadline)) return TooSlow();
    }
  }
  return Ask<int64_t>(deadline, [this, rounded] {
    absl::StatusOr<int64_t> removed = tier_->Remove(rounded);
    Refresh();
    return removed;
  });
}

CacheStats GuardedTier::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

GuardStats GuardedTier::guard_stats() const {
  MutexLock lock(mutex_);
  GuardStats stats = guard_;
  stats.is_open = breaker_.is_open();
  stats.opened = breaker_.opened();
  stats.waiting_writes = writes_.size();
  return stats;
}

void GuardedTier::Flush() {
  MutexLock lock(mutex_);
  while (is_writing_ || !writes_.empty()) ended_.Wait(mutex_);
}

absl::Status GuardedTier::TooSlow() const {
  return absl::UnavailableError(
      absl::StrCat("the cache tier '", options_.name, "' does not answer in time"));
}

absl::Status GuardedTier::LeftAlone() const {
  return absl::UnavailableError(
      absl::StrCat("the cache tier '", options_.name, "' is left alone for a while"));
}

// False: it has not ended in time.
bool GuardedTier::Make(const std::shared_ptr<Call>& call, Clock::time_point deadline) {
  MutexLock lock(mutex_);
  calls_.push_back(call);
  added_.SignalAll();
  while (!call->has_ended && ended_.WaitUntil(mutex_, deadline)) {
  }
  if (call->has_ended) return true;
  call->is_abandoned = true;
  call->has_begun ? void(++hung_) : void(std::erase(calls_, call));
  return false;
}

// Where all readers hang a trial would only take time.
bool GuardedTier::MayRead() {
  MutexLock lock(mutex_);
  if (hung_ < kReaders && breaker_.Allows(Clock::now())) return true;
  ++guard_.skipped_reads;
  return false;
}

void GuardedTier::Report(const absl::Status& status) {
  MutexLock lock(mutex_);
  status.ok() || absl::IsDataLoss(status) ? breaker_.Succeeded() : breaker_.Failed(Clock::now());
}

void GuardedTier::CountRead(Clock::duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  MutexLock lock(mutex_);
  guard_.read_times.Add(seconds);
}

// One thread at a time, so that what is counted last stays.
void GuardedTier::Refresh() {
  MutexLock refresh(refresh_mutex_);
  const CacheStats stats = tier_->stats();
  MutexLock lock(mutex_);
  stats_ = stats;
}

// Null: there are no more.
std::shared_ptr<GuardedTier::Call> GuardedTier::NextCall() {
  MutexLock lock(mutex_);
  while (calls_.empty() && !stopping_) added_.Wait(mutex_);
  if (calls_.empty()) return nullptr;
  std::shared_ptr<Call> call = std::move(calls_.front());
  calls_.pop_front();
  call->has_begun = true;
  return call;
}

void GuardedTier::MakeCalls() {
  while (const std::shared_ptr<Call> call = NextCall()) {
    call->make();
    MutexLock lock(mutex_);
    call->has_ended = true;
    if (call->is_abandoned) --hung_;
    ended_.SignalAll();
  }
}

// Drops what comes while the tier is left alone. Null: there are no more.
CachedAnswerPtr GuardedTier::NextWrite() {
  MutexLock lock(mutex_);
  while (true) {
    while (writes_.empty() && !stopping_) added_.Wait(mutex_);
    if (writes_.empty()) return nullptr;
    CachedAnswerPtr next = std::move(writes_.front());
    writes_.pop_front();
    is_writing_ = breaker_.Allows(Clock::now());
    if (is_writing_) return next;
    ++guard_.dropped_writes;
    ended_.SignalAll();
  }
}

void GuardedTier::WriteBehind() {
  while (CachedAnswerPtr next = NextWrite()) {
    const absl::Status written = tier_->Put(std::move(next));
    Refresh();
    Report(written);
    if (!written.ok()) observer_.StoreFailed(written);
    MutexLock lock(mutex_);
    is_writing_ = false;
    ended_.SignalAll();
  }
}

}  // namespace stowage
