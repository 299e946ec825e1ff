// Answers that wait for their readers: who asks and never reads must not fill the memory with them.
#ifndef STOWAGE_SERVER_RPC_UNSENT_BYTES_H_
#define STOWAGE_SERVER_RPC_UNSENT_BYTES_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "server/observe/observer.h"

namespace stowage {

// The share that an answer, or one of a stream, has in what all answers of the process may take
// between the end of their work and their departure; given back by the destructor. One thread at a
// time.
class Unsent {
 public:
  // On the wire; in memory up to ten times that. Large answers get half of it: small ones, which
  // most are, still leave when those are stuck.
  static constexpr int64_t kMostBytes = int64_t{128} << 20;
  static constexpr int64_t kSmallBytes = 64 << 10;

  Unsent() = default;
  ~Unsent() { total_ -= bytes_; }
  Unsent(const Unsent&) = delete;
  Unsent& operator=(const Unsent&) = delete;

  // Errors: RESOURCE_EXHAUSTED when too much waits already.
  absl::Status Take(int64_t bytes) {
    bytes_ += bytes;
    const int64_t most = bytes <= kSmallBytes ? kMostBytes : kMostBytes / 2;
    if (total_.fetch_add(bytes) + bytes <= most) return absl::OkStatus();
    // What never leaves takes nothing.
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
