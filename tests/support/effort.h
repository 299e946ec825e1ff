// How much tests try that could try any amount: a sample, or with STOWAGE_TEST_THOROUGH set, as
// `deploy/test.sh all` does, ten times the random chains and every budget.
#ifndef STOWAGE_TESTS_SUPPORT_EFFORT_H_
#define STOWAGE_TESTS_SUPPORT_EFFORT_H_

#include <cstdlib>

namespace stowage {

inline bool IsThorough() { return std::getenv("STOWAGE_TEST_THOROUGH") != nullptr; }

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_EFFORT_H_
