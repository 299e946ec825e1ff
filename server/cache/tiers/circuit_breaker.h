// Leaves alone what keeps failing, and tries it again after a pause.
#ifndef STOWAGE_SERVER_CACHE_TIERS_CIRCUIT_BREAKER_H_
#define STOWAGE_SERVER_CACHE_TIERS_CIRCUIT_BREAKER_H_

#include <chrono>
#include <cstdint>

namespace stowage {

// Closed: calls are made. After so many failures in a row it opens: none is made until the pause is
// over, then one, as a trial ("half open"). If the trial succeeds it closes, else it opens again.
// Knows no clock: times are arguments. Not thread-safe.
class CircuitBreaker {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    int failures = 2;                                // in a row, until it opens
    std::chrono::steady_clock::duration pause = {};  // until a trial
  };
  explicit CircuitBreaker(const Options& options) : options_(options) {}

  // Whether a call may be made now; whoever makes it reports how it ended, once.
  bool Allows(Time now);
  // A call ended. One that began before the breaker opened says nothing while it is open.
  void Succeeded();
  void Failed(Time now);

  bool is_open() const { return state_ != State::kClosed; }  // or half open
  int64_t opened() const { return opened_; }                 // how often, but for failed trials

 private:
  enum class State { kClosed, kOpen, kHalfOpen };

  const Options options_;
  State state_ = State::kClosed;
  int failures_ = 0;      // in a row
  Time trial_from_ = {};  // while open
  int64_t opened_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_TIERS_CIRCUIT_BREAKER_H_
