// Random chains and platforms with a link to the host, for RapidCheck. Call inside a property.
#ifndef STOWAGE_TESTS_SUPPORT_LINKED_CHAINS_H_
#define STOWAGE_TESTS_SUPPORT_LINKED_CHAINS_H_

#include <cstdint>

#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// A number from `least` to `most`, uniformly: RapidCheck's own generator starts with small ones.
int64_t DrawBetween(int64_t least, int64_t most);

// Like SmallChains(), but one stage in eight is no_offload. In half of the chains the stages save
// far more than they output, so that recomputing long parts pays, or have large overheads, so that
// a recomputed part has to wait for transfers.
Chain DrawLinkedChain(int max_stages);

// Memory from just below M_low to just above M_high; in half of the cases in the lower third of the
// range, where more choices matter. From 1/8 to 32 bytes per second each way: stages take up to 5 s
// and save up to 27 bytes.
Platform DrawLinkedPlatform(const Chain& chain);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_LINKED_CHAINS_H_
