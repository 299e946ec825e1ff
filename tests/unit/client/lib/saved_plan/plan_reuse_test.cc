#include "client/lib/saved_plan/plan_reuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "solver/solve/checked_answer.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;

// Stage 1 runs twice: one second more than the chain's nine, an overhead of 0.111.
constexpr const char* kWithoutCopies = "C1 S2 S3 S4 B4 B3 B2 S1 B1";
constexpr const char* kWithCopies = "C1 O0 R0 S2 S3 S4 B4 B3 B2 P0 S1 B1";

EarlierPlan Plan(const char* operations) {
  SolveRequest request{EqualChain(3), Memory(1000), "rotor", {}};
  request.platform.offload_bytes_per_second = 1e9;
  return {request,
          AnswerWithSchedule(request, ChainUnits(request.chain), Ops(operations), "rotor").value(),
          SolverVersion("rotor")};
}

// Where each forward of stage 1 takes so long, and the overhead is seconds / (8 + seconds).
absl::StatusOr<Answer> Reused(const char* operations, double seconds) {
  SolveRequest now = Plan(operations).request;
  now.chain.stages[0].forward_seconds = seconds;
  return ReusePlan(Plan(operations), now);
}

TEST(ReusePlan, AllowsAQuarterAndAHundredthMoreOverhead) {
  EXPECT_THAT(Reused(kWithoutCopies, 1.3), IsOk());  // 0.140 of 0.149
  EXPECT_THAT(Reused(kWithoutCopies, 1.5),           // 0.158
              Fails(absl::StatusCode::kFailedPrecondition, HasSubstr("loses more than it did")));
}

TEST(ReusePlan, AllowsAQuarterAndATwentiethMoreWhereValuesAreCopied) {
  EXPECT_THAT(Reused(kWithCopies, 1.5), IsOk());  // 0.158 of 0.189
  EXPECT_THAT(Reused(kWithCopies, 2),             // 0.2
              Fails(absl::StatusCode::kFailedPrecondition, HasSubstr("loses more than it did")));
}

}  // namespace
}  // namespace stowage
