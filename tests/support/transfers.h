// Valid schedules that offload, made from ones that do not: for those who execute or judge them.
#ifndef STOWAGE_TESTS_SUPPORT_TRANSFERS_H_
#define STOWAGE_TESTS_SUPPORT_TRANSFERS_H_

#include <cstdint>
#include <random>

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Between any two operations that need a value, with `share` in 0..1 of them, it is offloaded,
// released and brought back at moments drawn at random. Needs no more device memory than
// `schedule`.
Schedule WithTransfers(const Chain& chain, const Schedule& schedule, double share,
                       std::mt19937* random);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_TRANSFERS_H_
