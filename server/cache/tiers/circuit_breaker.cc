#include "server/cache/tiers/circuit_breaker.h"

namespace stowage {

bool CircuitBreaker::Allows(Time now) {
  if (state_ == State::kClosed) return true;
  if (state_ == State::kHalfOpen || now < trial_from_) return false;
  state_ = State::kHalfOpen;
  return true;
}

void CircuitBreaker::Succeeded() {
  if (state_ == State::kOpen) return;
  state_ = State::kClosed;
  failures_ = 0;
}

void CircuitBreaker::Failed(Time now) {
  if (state_ == State::kOpen) return;
  if (state_ == State::kClosed) {
    if (++failures_ < options_.failures) return;
    ++opened_;
  }
  state_ = State::kOpen;
  failures_ = 0;
  trial_from_ = now + options_.pause;
}

}  // namespace stowage
