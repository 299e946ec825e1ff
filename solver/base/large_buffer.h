// Uninitialized memory for tables of up to gigabytes. Buffers are aligned to cache lines. Those of
// 2 MiB and more ask for huge pages, which make the first use and the release several times faster.
#ifndef STOWAGE_SOLVER_BASE_LARGE_BUFFER_H_
#define STOWAGE_SOLVER_BASE_LARGE_BUFFER_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace stowage {

struct FreeLargeBuffer {
  void operator()(void* memory) const { std::free(memory); }
};

// Owns the memory. It runs no destructors, so T must be trivial.
template <typename T>
using LargeBuffer = std::unique_ptr<T[], FreeLargeBuffer>;

// `count` values of T, uninitialized. Throws std::bad_alloc, as `new` does; AnswerRequest()
// converts it to a status.
template <typename T>
LargeBuffer<T> MakeLargeBuffer(size_t count) {
  constexpr size_t kLine = 64;
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = count * sizeof(T) >= kHugePage ? kHugePage : kLine;
  // aligned_alloc() requires a multiple of the alignment. At least one unit, so never 0.
  const size_t bytes = (count * sizeof(T) + alignment) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, bytes);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  // A hint only: without huge pages the buffer works, slower.
  if (alignment == kHugePage) (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return LargeBuffer<T>(static_cast<T*>(memory));
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_LARGE_BUFFER_H_
