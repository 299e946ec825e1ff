// The happens-before checker: the accesses of one allocation, by byte ranges.
#ifndef STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_ACCESS_HISTORY_H_
#define STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_ACCESS_HISTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cuda_double/call_site.h"
#include "tests/support/cuda_double/clock.h"

namespace stowage::cuda_double {

enum class AccessKind { kRead, kWrite };

// Bytes of device memory, or of registered host memory.
struct Range {
  const void* data = nullptr;
  size_t bytes = 0;
  AccessKind kind = AccessKind::kRead;

  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(data); }
  uintptr_t end() const { return begin() + bytes; }
};

// Who accesses, and what has surely happened before.
struct Accessor {
  const char* what = "";  // the entry point
  Moment moment;
  Clock clock;
  CallSite site;
};

class AccessHistory {
 public:
  // Adds an access. Returns a text about another one that overlaps it and that nothing orders,
  // where one of the two writes; empty: there is none.
  std::string Add(const Range& range, const std::shared_ptr<const Accessor>& accessor);

 private:
  struct Access {
    Range range;
    std::shared_ptr<const Accessor> by;
  };

  std::vector<Access> accesses_;  // without those that a later one makes superfluous
};

}  // namespace stowage::cuda_double

#endif  // STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_ACCESS_HISTORY_H_
