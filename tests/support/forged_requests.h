// Two requests that the cache could not tell apart while its keys were unseeded XXH3-128 hashes:
// one that has a schedule, and one that an attacker made of it, which has none.
//
// XXH3 multiplies the halves of each 64-bit number, of which one is XORed with a public constant,
// and adds the number itself to its neighbour's sum. Where the lower half is that constant the
// product is 0 whatever the upper half, so that upper halves can be exchanged between two numbers
// of one lane.
#ifndef STOWAGE_TESTS_SUPPORT_FORGED_REQUESTS_H_
#define STOWAGE_TESTS_SUPPORT_FORGED_REQUESTS_H_

#include "solver/model/request.h"

namespace stowage {

// Twenty stages with `rotor` and exact times; the ninth has a large output.
SolveRequest VictimRequest();  // feasible: a small stage needs 28 GiB beside, the large one 3
SolveRequest ForgedRequest();  // infeasible: the large one needs them

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_FORGED_REQUESTS_H_
