// Vector clocks: which work happens before which.
#ifndef STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_CLOCK_H_
#define STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_CLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stowage::cuda_double {

// Host code is one actor, and every stream is one. The calls of several host threads count as
// ordered as they come: their races are ThreadSanitizer's to find.
inline constexpr size_t kHost = 0;

// A moment of an actor.
struct Moment {
  size_t actor = kHost;
  uint64_t number = 0;  // of the actor's moments; from 1
};

// By actor, the last moment that has surely happened.
class Clock {
 public:
  void Join(const Clock& other) {
    if (other.numbers_.size() > numbers_.size()) numbers_.resize(other.numbers_.size());
    for (size_t i = 0; i < other.numbers_.size(); ++i) {
      numbers_[i] = std::max(numbers_[i], other.numbers_[i]);
    }
  }

  // The actor's next moment.
  Moment Tick(size_t actor) {
    if (actor >= numbers_.size()) numbers_.resize(actor + 1);
    return {actor, ++numbers_[actor]};
  }

  bool HasPassed(const Moment& moment) const {
    return moment.actor < numbers_.size() && numbers_[moment.actor] >= moment.number;
  }

 private:
  std::vector<uint64_t> numbers_;
};

}  // namespace stowage::cuda_double

#endif  // STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_CLOCK_H_
