// Memory for tables of up to gigabytes: aligned to cache lines, on huge pages where the system has
// them (which makes first use and freeing several times faster), not cleared.
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

// `count` values of T, or std::bad_alloc, as `new` would; AnswerRequest() turns it into an error.
template <typename T>
using LargeBuffer = std::unique_ptr<T[], FreeLargeBuffer>;

template <typename T>
LargeBuffer<T> MakeLargeBuffer(size_t count) {
  constexpr size_t kLine = 64;
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = count * sizeof(T) >= kHugePage ? kHugePage : kLine;
  const size_t bytes = (count * sizeof(T) + alignment) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, bytes);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (alignment == kHugePage) (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return LargeBuffer<T>(static_cast<T*>(memory));
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_LARGE_BUFFER_H_
