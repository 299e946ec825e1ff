// Adds random transfers to schedules, for tests of the simulator and the executors.
#ifndef STOWAGE_TESTS_SUPPORT_TRANSFERS_H_
#define STOWAGE_TESTS_SUPPORT_TRANSFERS_H_

#include <cstdint>
#include <random>

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Between two consecutive uses of a value it is, with probability `share` in [0, 1], offloaded,
// released and prefetched at random positions. The result is valid and needs no more device memory
// than `schedule`.
Schedule WithTransfers(const Chain& chain, const Schedule& schedule, double share,
                       std::mt19937* random);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_TRANSFERS_H_
