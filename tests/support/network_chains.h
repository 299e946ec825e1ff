// Chains of any length in the shape of real networks, for benchmarks: the same on every machine.
#ifndef STOWAGE_TESTS_SUPPORT_NETWORK_CHAINS_H_
#define STOWAGE_TESTS_SUPPORT_NETWORK_CHAINS_H_

#include "solver/model/chain.h"

namespace stowage {

// Forward 1 ms, backward 2 ms, output 10 MiB, saved 30 MiB.
Chain EqualNetwork(int stages);

// Four groups of stages alike up to chance; sizes halve from group to group. Output 64 MiB in the
// first, saved 2.5 to 3.5 times that, backward overhead half of it, forward 0.5 to 1.5 ms.
Chain ResnetLikeNetwork(int stages);

// Four blocks of stages; inside one the output grows from 0.3 of its size to all of it, as every
// layer adds to what is handed on. 64 MiB for the first block, then half of it each; saved 4 MiB
// more than 1.5 to 3 times the output, forward 0.25 to 2.25 ms and growing.
Chain DensenetLikeNetwork(int stages);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_NETWORK_CHAINS_H_
