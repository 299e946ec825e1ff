// Which of several servers a call goes to, when it is repeated, and when it is given up. Knows no
// RPC: a call is a function.
#ifndef STOWAGE_CLIENT_LIB_RPC_FAILOVER_H_
#define STOWAGE_CLIENT_LIB_RPC_FAILOVER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace stowage {

struct FailoverOptions {
  std::vector<std::string> servers;  // addresses, for messages; not empty
  double patience_seconds = 3;       // for how long a call is repeated while no server answers
  uint32_t seed = 0;                 // of the order of the servers and of the pauses' jitter
};

// The time that Failover lives in; tests have their own.
struct FailoverTime {
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(std::chrono::duration<double>)> sleep;

  static FailoverTime Real();
};

// The servers are in a random order, so that the clients of a cluster spread over them. A call
// begins at the server that answered the last one. The next server is tried at once. After all of
// them the call pauses as Backoff says, for the first time at which one of them advised to come
// back, and goes round again. After a refusal for the caller's own limit (FailureCause) it pauses
// for that server's advice before it tries any other.
//
// It ends with the first answer or error that it may not repeat; with the second connection that
// broke in mid-call; or, with the last failure, as soon as another attempt would come too late:
// - after its timeout, which limits all attempts and pauses together;
// - once no server has answered for `patience_seconds`;
// - without a timeout, 10 s after its first failure where a server says when to come back.
// Thread-safe.
class Failover {
 public:
  // Makes the call at a server, an index of `servers`, within the time that is left; unset: no
  // limit.
  using Attempt =
      absl::FunctionRef<absl::Status(size_t server, std::optional<double> timeout_seconds)>;
  // Whether a call that failed so may be made again.
  using Rule = bool (*)(const absl::Status& failure);

  explicit Failover(const FailoverOptions& options, FailoverTime time = FailoverTime::Real());

  // The status of the last attempt. Where servers did not answer, or a call was given up, its
  // message has what each server that failed said last.
  absl::Status Call(std::optional<double> timeout_seconds, Rule may_repeat, Attempt attempt);

 private:
  // What the servers said last; OK where one was not tried.
  using Failures = std::vector<absl::Status>;
  // Names each server but where only one failed.
  absl::Status Summary(const Failures& failures, const absl::Status& last) const;

  const FailoverOptions options_;
  const FailoverTime time_;
  const std::vector<size_t> order_;      // a permutation of the servers
  std::atomic<size_t> first_ = 0;        // where the next call begins; an index of order_
  std::atomic<uint32_t> next_seed_ = 0;  // of the next call's pauses
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_FAILOVER_H_
