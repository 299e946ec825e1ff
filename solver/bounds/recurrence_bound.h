// A lower bound on the makespan: the largest that priced_recurrence.h finds at any prices of the
// link. It is concave in the prices; a search over them, with a limit on its work, finds nearly the
// largest.
#ifndef STOWAGE_SOLVER_BOUNDS_RECURRENCE_BOUND_H_
#define STOWAGE_SOLVER_BOUNDS_RECURRENCE_BOUND_H_

#include <stop_token>

#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// A lower bound in seconds on the makespan of every schedule within the platform's limits, up to
// the rounding of sums. 0 where the chain is too long for the limit on work (without a link from
// about 120 stages on, with one from about 110), where no schedule fits, and without a link once
// `stop` is set; with a link, `stop` ends the search for prices. Without a link it never grows with
// memory and costs at most some 10 ms; with one some 20 ms for 50 stages and 80 ms for 100.
// Allocates up to 100 MB; throws std::bad_alloc. Requires: Violations() of both are empty.
// Thread-safe.
double RecurrenceBoundSeconds(const Chain& chain, const Platform& platform,
                              const std::stop_token& stop = {});

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_RECURRENCE_BOUND_H_
