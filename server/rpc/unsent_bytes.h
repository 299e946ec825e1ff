// Bounds the memory of answers that wait to be read: a caller that never reads must not exhaust it.
#ifndef STOWAGE_SERVER_RPC_UNSENT_BYTES_H_
#define STOWAGE_SERVER_RPC_UNSENT_BYTES_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "server/observe/observer.h"

namespace stowage {

// The bytes of one answer, or of one event of a stream, in the process-wide total of answers that
// have not been sent. The destructor subtracts them. One thread at a time.
class UnsentBytes {
 public:
  // Serialized; in memory up to ten times as many. Large answers may take half of them, so that
  // small ones, which most are, can still be sent while large ones wait.
  static constexpr int64_t kMostBytes = int64_t{128} << 20;
  static constexpr int64_t kSmallBytes = 64 << 10;

  UnsentBytes() = default;
  ~UnsentBytes() { total_ -= bytes_; }
  UnsentBytes(const UnsentBytes&) = delete;
  UnsentBytes& operator=(const UnsentBytes&) = delete;

  // Errors: RESOURCE_EXHAUSTED when too much waits already.
  absl::Status Take(int64_t bytes) {
    bytes_ += bytes;
    const int64_t most = bytes <= kSmallBytes ? kMostBytes : kMostBytes / 2;
    if (total_.fetch_add(bytes) + bytes <= most) return absl::OkStatus();
    // An answer that is refused takes nothing.
    total_ -= bytes;
    bytes_ -= bytes;
    absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
        "more than ", most >> 20, " MiB of answers wait to be read; read yours, try again"));
    status.SetPayload(kRejectionPayload, absl::Cord("unread"));
    return status;
  }

 private:
  static inline std::atomic<int64_t> total_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_UNSENT_BYTES_H_
