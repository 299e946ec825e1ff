// A lower bound on the makespan: nearly the largest that priced_recurrence.h finds at any prices of
// the link, by searches with a limit on their work (price_search.h).
#ifndef STOWAGE_SOLVER_BOUNDS_RECURRENCE_BOUND_H_
#define STOWAGE_SOLVER_BOUNDS_RECURRENCE_BOUND_H_

#include <limits>
#include <stop_token>

#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// How long a bound may take.
enum class BoundTime {
  kShort,  // without a link 10 ms
  kLong,   // without a link more where the gap is wide
};

// What is known of the least makespan. A bound that meets the upper end is the last; how far the
// ends are apart decides how long it may take.
struct KnownRange {
  double min_seconds = 0;                                        // a lower bound
  double max_seconds = std::numeric_limits<double>::infinity();  // the makespan of a schedule
  BoundTime time = BoundTime::kLong;
};

// A lower bound in seconds on the makespan of every schedule within the platform's limits, up to
// the rounding of sums. 0 where the chain is too long for the limit on work (without a link from
// about 400 stages on, with one from about 110), where no schedule fits, and without a link once
// `stop` is set; with a link, `stop` ends the search for prices.
// Without a link it takes some 10 ms, another 20 where the gap is not closed to 0.2 %, and up to
// half a second for chains of more than some 140 stages, which are bounded only where the ends of
// `known` are 5 % apart. With a link it takes some 30 ms for 20 stages and 100 ms for 70.
// More memory may raise it by what rounding sizes loses. Allocates up to 100 MB; throws
// std::bad_alloc.
// Requires: Violations() of both are empty; no stage is input_unread. Thread-safe.
double RecurrenceBoundSeconds(const Chain& chain, const Platform& platform,
                              const KnownRange& known = {}, const std::stop_token& stop = {});

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_RECURRENCE_BOUND_H_
