// Chains of any length that resemble real networks, for benchmarks. Identical on every machine.
#ifndef STOWAGE_TESTS_SUPPORT_NETWORK_CHAINS_H_
#define STOWAGE_TESTS_SUPPORT_NETWORK_CHAINS_H_

#include "solver/model/chain.h"

namespace stowage {

// Forward 1 ms, backward 2 ms, output 10 MiB, saved 30 MiB.
Chain EqualNetwork(int stages);

// Four groups of stages, equal up to random factors; sizes halve from group to group. First group:
// output 64 MiB, saved 2.5 to 3.5 times that, backward overhead half of it, forward 0.5 to 1.5 ms.
Chain ResnetLikeNetwork(int stages);

// Four blocks of stages. Inside a block the output grows from 0.3 to 1 times the block's size,
// since every layer concatenates to its input. The size is 64 MiB for the first block and halves
// from block to block. Saved: 4 MiB plus 1.5 to 3 times the output. Forward: 0.25 to 2.25 ms,
// growing.
Chain DensenetLikeNetwork(int stages);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_NETWORK_CHAINS_H_
