// Which of the servers that share a cache solves a request, so that one of them does.
#ifndef STOWAGE_SERVER_CACHE_SOLVE_LEASES_H_
#define STOWAGE_SERVER_CACHE_SOLVE_LEASES_H_

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cache/cache_keys.h"

namespace stowage {

struct SolveLease {
  enum class State {
    kFree,       // no server solves the request
    kTaken,      // the one that asked does from now on
    kTakenOver,  // the same, in place of a server whose lease ran out
    kHeld,       // another server does
    kDone,       // another one has, a moment ago, or the answer is stored
  };
  State state = State::kFree;
  int64_t token = 0;    // where it was taken; those of later leases are larger
  double fraction = 0;  // where it is held: of the solve, as last reported, 0..1
};

struct LeaseStats {  // since the start
  int64_t taken = 0;
  int64_t taken_over = 0;
  int64_t waited = 0;    // solves that another server had begun
  int64_t lost = 0;      // ran out, and another server took them over, while a solve was running
  int64_t refused = 0;   // answers that were not stored, because a later lease was there
  int64_t failures = 0;  // the store of the leases did not work: solves without one
};

// Leases of solves, by CacheKeys::rounded. A lease runs out unless it is renewed, so that a server
// that dies holds up nobody for longer. It is advice: a store that loses one costs a solve more,
// and what an answer is worth is proved by whoever uses it. An answer with the lease's token
// (CachedAnswer::lease_token) that is stored ends the lease. Thread-safe; calls may block, on a
// network. Errors of all: UNAVAILABLE.
class SolveLeases {
 public:
  virtual ~SolveLeases() = default;
  // For so long, from when it was taken or renewed.
  virtual std::chrono::milliseconds duration() const = 0;
  // Takes the lease where nobody holds it and there is no answer.
  virtual absl::StatusOr<SolveLease> Take(const Fingerprint& key) = 0;
  // The same, but leaves a free one free.
  virtual absl::StatusOr<SolveLease> Look(const Fingerprint& key) = 0;
  // False: another server has taken it over.
  virtual absl::StatusOr<bool> Renew(const Fingerprint& key, int64_t token, double fraction) = 0;
  // `is_done`: others that find no answer need not wait for each other, because there is none that
  // could be stored. Does nothing where another server has taken it over.
  virtual absl::Status End(const Fingerprint& key, int64_t token, bool is_done) = 0;
  virtual LeaseStats lease_stats() const = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_SOLVE_LEASES_H_
