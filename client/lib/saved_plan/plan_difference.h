// What a saved plan depends on.
#ifndef STOWAGE_CLIENT_LIB_SAVED_PLAN_PLAN_DIFFERENCE_H_
#define STOWAGE_CLIENT_LIB_SAVED_PLAN_PLAN_DIFFERENCE_H_

#include <string>

#include "solver/model/request.h"
#include "solver/model/schedule.h"

namespace stowage {

// The first field of what a plan depends on in which the request that it was made for differs from
// another one, as "memory 4.00 GiB, now 5.00 GiB"; empty: in none. Names, times and the link's
// speed and duplex play no part: they are measured anew at every start, and only what a schedule
// then loses tells whether it still serves. Nor does the limit of host memory if the schedule
// offloads nothing; a link that there is now and was not then does. Thread-safe.
std::string PlanDifference(const SolveRequest& made_for, const SolveRequest& now,
                           const Schedule& schedule);

// Whether a schedule copies values to the host.
bool UsesLink(const Schedule& schedule);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_SAVED_PLAN_PLAN_DIFFERENCE_H_
