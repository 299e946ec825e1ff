// The time of what is not possible: more than every other, also after additions.
#ifndef STOWAGE_SOLVER_BASE_INFINITE_H_
#define STOWAGE_SOLVER_BASE_INFINITE_H_

#include <limits>

namespace stowage {

inline constexpr double kInfiniteSeconds = std::numeric_limits<double>::infinity();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_INFINITE_H_
