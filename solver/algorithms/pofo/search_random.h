// The random numbers of the local search (local_search.h).
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_RANDOM_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <random>

namespace stowage {

// Random numbers from a fixed seed, so that equal inputs give equal answers.
class SearchRandom {
 public:
  // Uniform in 0..bound-1.
  uint32_t Below(size_t bound) {
    return static_cast<uint32_t>((static_cast<uint64_t>(engine_()) * bound) >> 32);
  }
  bool OneIn(uint32_t times) { return Below(times) == 0; }
  // Uniform in (0, 1].
  double Fraction() { return (static_cast<double>(engine_()) + 1) / 0x1p32; }

 private:
  std::mt19937 engine_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_RANDOM_H_
