// Bounds the memory of answers that wait to be read: a caller that never reads must not exhaust it.
#ifndef STOWAGE_SERVER_RPC_MESSAGES_UNSENT_BYTES_H_
#define STOWAGE_SERVER_RPC_MESSAGES_UNSENT_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace stowage {

// The bytes of one answer, or of one event of a stream, in the totals of answers that have not been
// sent: of the process, and of each client. The destructor subtracts them. One thread at a time.
class UnsentBytes {
 public:
  // Serialized; in memory up to ten times as many. Large answers may take half of them, so that
  // small ones, which most are, can still be sent while large ones wait; the answers of one client
  // a quarter.
  static constexpr int64_t kMaxBytes = int64_t{128} << 20;
  static constexpr int64_t kSmallBytes = 64 << 10;

  UnsentBytes() = default;
  ~UnsentBytes();
  UnsentBytes(const UnsentBytes&) = delete;
  UnsentBytes& operator=(const UnsentBytes&) = delete;

  // Errors: RESOURCE_EXHAUSTED when too much waits already; then the answer takes nothing.
  // Requires: the client is the same at every call.
  absl::Status Take(int64_t bytes, const std::string& client);

 private:
  std::string client_;
  int64_t bytes_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_MESSAGES_UNSENT_BYTES_H_
