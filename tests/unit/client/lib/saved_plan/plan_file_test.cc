// What tests/integration/planner_test.cc does not show: which of several plans is named.
#include "client/lib/saved_plan/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "solver/solve/checked_answer.h"
#include "tests/support/chains.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

SolveRequest RequestFor(int64_t memory_bytes) {
  return {EqualChain(3), Memory(memory_bytes), "rotor", {}};
}

TEST(LoadPlan, NamesTheLastOneThatWasWrittenForOtherMemory) {
  const TempFolder folder;
  const auto save = [&folder](int64_t memory_bytes, std::chrono::hours ago) {
    const SolveRequest request = RequestFor(memory_bytes);
    const auto answer =
        std::make_shared<const Answer>(AnswerWithSchedule(request, ChainUnits(request.chain),
                                                          Ops("S1 S2 S3 S4 B4 B3 B2 B1"), "rotor")
                                           .value());
    ASSERT_THAT(SavePlan(folder.Path("plans"), request, {{answer, {}}, true}), IsOk());
    fs::last_write_time(folder.Path("plans/" + PlanFileName(request)),
                        fs::file_time_type::clock::now() - ago);
  };
  save(500, std::chrono::hours(2));
  save(600, std::chrono::hours(1));
  save(700, std::chrono::hours(3));
  EXPECT_THAT(LoadPlan(folder.Path("plans"), RequestFor(800)),
              Fails(absl::StatusCode::kFailedPrecondition,
                    testing::HasSubstr("was made for memory 600 B, now 800 B")));
}

}  // namespace
}  // namespace stowage
