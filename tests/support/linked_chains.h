// Random questions about chains and links to the host, for RapidCheck: call inside a property.
#ifndef STOWAGE_TESTS_SUPPORT_LINKED_CHAINS_H_
#define STOWAGE_TESTS_SUPPORT_LINKED_CHAINS_H_

#include <cstdint>

#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// From `least` to `most`, and not only small numbers at first as RapidCheck would.
int64_t DrawBetween(int64_t least, int64_t most);

// As SmallChains(), but one stage in eight has a value that may not leave, and in half the chains
// stages save far more than they hand on, so that it pays to run long parts again, or take far more
// while they run, so that parts wait in their middle.
Chain DrawLinkedChain(int most_stages);

// Memory from just below the least possible to just above what storing everything takes; half of
// the time in the lower third of that, where there is more to decide. From 1/8 to 32 bytes a second
// each way: stages take up to 5 s and save up to 27 bytes.
Platform DrawLinkedPlatform(const Chain& chain);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_LINKED_CHAINS_H_
