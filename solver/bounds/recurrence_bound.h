// A lower bound on the makespan: the largest that priced_recurrence.h finds at any prices of the
// link. It is concave in the prices; a search over them, with a limit on its work, finds nearly the
// largest.
#ifndef STOWAGE_SOLVER_BOUNDS_RECURRENCE_BOUND_H_
#define STOWAGE_SOLVER_BOUNDS_RECURRENCE_BOUND_H_

#include <limits>
#include <stop_token>

#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// What is known of the least makespan: a bound that is closer to the upper end than it is worth
// ends the computation, and how far the ends are apart decides how long it may take.
struct KnownRange {
  double least_seconds = 0;                                       // a lower bound
  double most_seconds = std::numeric_limits<double>::infinity();  // the makespan of a schedule
};

// A lower bound in seconds on the makespan of every schedule within the platform's limits, up to
// the rounding of sums. 0 where the chain is too long for the limit on work (without a link from
// about 400 stages on, with one from about 110), where no schedule fits, and without a link once
// `stop` is set; with a link, `stop` ends the search for prices.
// Without a link it costs up to some 30 ms for up to 140 stages; longer chains are bounded only
// where the ends of `known` are 5 % apart, in up to half a second. With a link it costs some 20 ms
// for 50 stages and 80 ms for 100. More memory may raise it by what rounding sizes loses. Allocates
// up to 100 MB; throws std::bad_alloc. Requires: Violations() of both are empty. Thread-safe.
double RecurrenceBoundSeconds(const Chain& chain, const Platform& platform,
                              const KnownRange& known = {}, const std::stop_token& stop = {});

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_RECURRENCE_BOUND_H_
