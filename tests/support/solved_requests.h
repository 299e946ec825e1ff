// Requests that differ by their stages, with their keys and answers, for tests of the cache.
#ifndef STOWAGE_TESTS_SUPPORT_SOLVED_REQUESTS_H_
#define STOWAGE_TESTS_SUPPORT_SOLVED_REQUESTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "server/cache/cache_tier.h"
#include "solver/algorithms/solver.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {

// Different stages make different requests.
inline SolveRequest Request(int stages, double time_factor = 1) {
  SolveRequest request{
      EqualChain(stages), Memory(int64_t{15} * stages), "rotor", {.time_precision = 0.01}};
  for (Stage& stage : request.chain.stages) stage.forward_seconds *= time_factor;
  return request;
}

inline CacheKeys KeysFor(const SolveRequest& request) {
  return CacheKeysOf(request, Instance::Rounded(request));
}

// Owned by "client".
inline CachedAnswerPtr Solve(const SolveRequest& request) {
  absl::StatusOr<Answer> answer = AnswerRequest(request, SolveContext());
  EXPECT_THAT(answer, IsOk());
  return std::make_shared<const CachedAnswer>(
      CachedAnswer{*std::move(answer), KeysFor(request), "client", /*is_explained=*/true});
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_SOLVED_REQUESTS_H_
