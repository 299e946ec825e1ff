// The random numbers of the local search (local_search.h).
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_RANDOM_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_RANDOM_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace stowage {

// Random numbers from a fixed seed, so that equal inputs give equal answers: PCG32 (O'Neill 2014),
// which takes a fraction of the time of the standard library's engines.
class SearchRandom {
 public:
  // Uniform in 0..bound-1.
  uint32_t Below(size_t bound) {
    return static_cast<uint32_t>((static_cast<uint64_t>(Next()) * bound) >> 32);
  }
  bool OneIn(uint32_t times) { return Below(times) == 0; }
  // Uniform in (0, 1].
  double Fraction() { return (static_cast<double>(Next()) + 1) / 0x1p32; }

 private:
  uint32_t Next() {
    const uint64_t old = state_;
    state_ = old * 6364136223846793005u + 1442695040888963407u;
    const auto mixed = static_cast<uint32_t>(((old >> 18) ^ old) >> 27);
    return std::rotr(mixed, static_cast<int>(old >> 59));
  }

  uint64_t state_ = 0x853c49e6748fea9bu;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_RANDOM_H_
