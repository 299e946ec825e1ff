// What the calls of each connection account for, to be compared with what its socket received.
#ifndef STOWAGE_SERVER_ENGINE_LIMITS_CONNECTION_ACCOUNTS_H_
#define STOWAGE_SERVER_ENGINE_LIMITS_CONNECTION_ACCOUNTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "solver/base/mutex.h"

namespace stowage {

// Of one connection, since it began.
struct CallTotals {
  int64_t begun = 0;
  int64_t ended = 0;      // of those, that no longer hold memory
  int64_t abandoned = 0;  // of those, that their caller cancelled, or whose deadline passed
  int64_t request_bytes = 0;
  int64_t answer_bytes = 0;        // also of those that are still to be sent
  int64_t ended_answer_bytes = 0;  // of those, of calls that have ended
};

// Streams of one connection at a time, as its client is told; a client sends further calls when
// others have ended.
inline constexpr int kMaxOpenStreams = 128;

// Of one connection, since it began: streams that its client began, calls or not.
struct StreamTotals {
  int64_t begun = 0;
  int64_t ended = 0;  // of those, that no longer hold memory
};

// Thread-safe.
class ConnectionAccount {
 public:
  void Begin(int64_t request_bytes) {
    request_bytes_.fetch_add(request_bytes, std::memory_order_relaxed);
    begun_.fetch_add(1, std::memory_order_relaxed);
  }
  void End(int64_t answer_bytes) {
    ended_answer_bytes_.fetch_add(answer_bytes, std::memory_order_relaxed);
    ended_.fetch_add(1, std::memory_order_relaxed);
  }
  void Abandon() { abandoned_.fetch_add(1, std::memory_order_relaxed); }
  void Answer(int64_t bytes) { answer_bytes_.fetch_add(bytes, std::memory_order_relaxed); }

  // Each figure is exact; calls may begin and end while they are read.
  CallTotals Totals() const;

 private:
  std::atomic<int64_t> begun_{0};
  std::atomic<int64_t> ended_{0};
  std::atomic<int64_t> abandoned_{0};
  std::atomic<int64_t> request_bytes_{0};
  std::atomic<int64_t> answer_bytes_{0};
  std::atomic<int64_t> ended_answer_bytes_{0};
};

// One call in the account of its connection, from its construction to its destruction. A default
// one, or one of a connection without an account, counts nowhere. The methods are thread-safe.
class CountedCall {
 public:
  CountedCall() = default;
  CountedCall(std::shared_ptr<ConnectionAccount> account, int64_t request_bytes)
      : account_(std::move(account)) {
    if (account_ != nullptr) account_->Begin(request_bytes);
  }
  ~CountedCall() {
    if (account_ != nullptr) account_->End(answer_bytes_);
  }
  CountedCall(CountedCall&& other) noexcept
      : account_(std::move(other.account_)), answer_bytes_(other.answer_bytes_.load()) {}
  CountedCall& operator=(CountedCall&& other) = delete;

  // Once: its caller no longer waits for it.
  void Abandon() const {
    if (account_ != nullptr) account_->Abandon();
  }
  // So much of its answer is about to be sent.
  void Answer(size_t bytes) const {
    if (account_ == nullptr) return;
    answer_bytes_ += static_cast<int64_t>(bytes);
    account_->Answer(static_cast<int64_t>(bytes));
  }

 private:
  std::shared_ptr<ConnectionAccount> account_;
  mutable std::atomic<int64_t> answer_bytes_{0};
};

// The accounts of open connections, by their peer ("ipv4:192.0.2.7:4711"). Thread-safe.
class ConnectionAccounts {
 public:
  // The account of a new connection, in place of an earlier one of the same peer.
  std::shared_ptr<ConnectionAccount> Open(const std::string& peer);
  // After the end of the connection; its calls may live longer.
  void Close(const std::string& peer, const ConnectionAccount& account);
  // Null: there is none, as for the Unix socket's.
  std::shared_ptr<ConnectionAccount> Of(absl::string_view peer) const;

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<ConnectionAccount>> accounts_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_LIMITS_CONNECTION_ACCOUNTS_H_
