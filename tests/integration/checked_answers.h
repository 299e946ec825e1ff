// Requests that do not share an answer, and answers that are simulated.
#ifndef STOWAGE_TESTS_INTEGRATION_CHECKED_ANSWERS_H_
#define STOWAGE_TESTS_INTEGRATION_CHECKED_ANSWERS_H_

#include "stowage/v1/scheduler.pb.h"
#include "tests/integration/rpc.h"

namespace stowage {

// A real network at one of many budgets, so that no two numbers below 900 share a cache key.
v1::SolveRequest DistinctRequest(int number);

// Simulates the schedule here: it fits, and costs what the answer says.
void ExpectRight(const v1::SolveRequest& request, const v1::SolveResponse& response);

// Expects a right answer, and returns where it is from.
v1::Origin::Source SolveAndCheck(const Remote& remote, const v1::SolveRequest& request);

}  // namespace stowage

#endif  // STOWAGE_TESTS_INTEGRATION_CHECKED_ANSWERS_H_
