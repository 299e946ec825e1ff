// Memory that runs out: what allocates throws std::bad_alloc, as `new` does, and code that can go
// on without what it wanted says so by this function.
#ifndef STOWAGE_SOLVER_BASE_OUT_OF_MEMORY_H_
#define STOWAGE_SOLVER_BASE_OUT_OF_MEMORY_H_

#include <new>
#include <type_traits>

namespace stowage {

// The result of `run`; where memory runs out in it, `otherwise`, or its result where it is a
// function: by then what `run` held is free again.
template <typename Run, typename Otherwise>
std::invoke_result_t<Run&> UnlessOutOfMemory(Run run, Otherwise otherwise) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    if constexpr (std::is_invocable_v<Otherwise&>) {
      return otherwise();
    } else {
      return otherwise;
    }
  }
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_OUT_OF_MEMORY_H_
